package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// errHandedOver is the cause of a context that ends because the worker stops.
var errHandedOver = errors.New("the worker stops")

// errReplaced is the cause of a context that ends because Temporal has given up an
// execution that had not begun to work.
var errReplaced = errors.New("superseded in Temporal")

// errLeaseEnded is the cause of a context that ends because another host may execute the assignment, or does.
var errLeaseEnded = errors.New("the assignment's lease has ended")

// isPermanent reports whether a store's error will be the same next time: the content
// is gone or wrong, as opposed to a directory that cannot be used at the moment. A
// deadline or a cancellation is no statement on the content.
func isPermanent(err error) bool {
	_, failed := asFailure(err)
	return failed || errors.Is(err, session.ErrNotFound) ||
		errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrFenced)
}

// storeError converts a store's error to the error of an activity, retryable or not.
func storeError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return err
	case isPermanent(err):
		return unrecoverable(RoundFailure{Failure: *permanentFailure(err)}, err)
	}
	activity.GetLogger(ctx).Warn("the store cannot be used; the step is done again after a wait", "error", err)
	return temporal.NewApplicationErrorWithOptions(err.Error(), session.StoreUnusable,
		temporal.ApplicationErrorOptions{Cause: err})
}

// permanentFailure returns the failure of the session for a permanent error.
func permanentFailure(err error) *failures.Failure {
	if failure, ok := asFailure(err); ok {
		return failure
	}
	f := failures.Failf(failures.ResourceError, "%s", textfmt.Shorten(err.Error(), session.MaxMessage))
	f.Final = true
	return f
}

// asFailure returns the failure of the work in err; false: err is another error.
func asFailure(err error) (*failures.Failure, bool) {
	var failure *failures.Failure
	ok := errors.As(err, &failure)
	return failure, ok
}

func recoverable(f failures.Failure, wait time.Duration) error {
	return temporal.NewApplicationErrorWithOptions(textfmt.Shorten(f.Error(), session.MaxMessage), session.RecoverableError,
		temporal.ApplicationErrorOptions{NextRetryDelay: wait})
}

func unrecoverable(report RoundFailure, cause error) error {
	report.Failure.Output = ""
	return temporal.NewApplicationErrorWithOptions(textfmt.Shorten(report.Failure.Error(), session.MaxMessage),
		session.UnrecoverableError,
		temporal.ApplicationErrorOptions{NonRetryable: true, Cause: cause, Details: []any{report}})
}

// isApplicationError reports whether an error is already the error of an activity.
func isApplicationError(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app)
}

// newHandedOver returns the error with which Temporal starts the next execution at once, unless the activity was cancelled.
func newHandedOver(why error) error {
	return temporal.NewApplicationErrorWithOptions(why.Error()+"; another worker continues", session.HandedOver,
		temporal.ApplicationErrorOptions{NextRetryDelay: time.Millisecond})
}

// asUnknown converts an error of the agent that is not a failure to a failure of category
// unknown. It does not change errors of the store and errors that end the round.
func asUnknown(err error) error {
	var app *temporal.ApplicationError
	switch _, failed := asFailure(err); {
	case err == nil, failed, errors.As(err, &app), errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrCorrupt),
		errors.Is(err, session.ErrFenced):
		return err
	}
	return failures.Failf(failures.Unknown, "%s", err)
}

// maskedFailure returns a failure without secrets, in the size limits of a record.
func maskedFailure(agents Agents, f failures.Failure) failures.Failure {
	f.Message = textfmt.Shorten(agents.Mask(f.Message), session.MaxMessage)
	f.Output = textfmt.Tail(agents.Mask(f.Output), session.MaxOutput)
	return f
}
