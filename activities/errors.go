package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// errHandedOver is the cause of a context that ends because the worker stops.
var errHandedOver = errors.New("the worker stops")

// errReplaced is the cause of a context that ends because Temporal has given up an
// execution that had not begun to work.
var errReplaced = errors.New("superseded in Temporal")

// isPermanent reports whether a store's error will be the same next time: the content
// is gone or wrong, as opposed to a directory that cannot be used at the moment. A
// deadline or a cancellation is no statement on the content.
func isPermanent(err error) bool {
	_, failed := asFailure(err)
	return failed || errors.Is(err, session.ErrNotFound) ||
		errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrFenced)
}

// storeError is how a store's error leaves an activity: as retryable as it is.
func storeError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return err
	case isPermanent(err):
		return unrecoverable(RoundFailure{Failure: *permanentFailure(err)}, err)
	}
	return temporal.NewApplicationErrorWithOptions(err.Error(), session.StoreUnusable,
		temporal.ApplicationErrorOptions{Cause: err})
}

// permanentFailure is what a permanent error means for the session.
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
	return temporal.NewApplicationErrorWithOptions(textfmt.Shorten(report.Failure.Error(), session.MaxMessage), session.UnrecoverableError,
		temporal.ApplicationErrorOptions{NonRetryable: true, Cause: cause, Details: []any{report}})
}

// isAnswer reports whether an error has already the form in which it leaves an activity.
func isAnswer(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app)
}

// handedOver has Temporal start the next execution at once, where it may.
func handedOver(why error) error {
	return temporal.NewApplicationErrorWithOptions(why.Error()+"; another worker continues", session.HandedOver,
		temporal.ApplicationErrorOptions{NextRetryDelay: time.Millisecond})
}

// counted makes an error on the agent's side that is no failure yet into one of category
// unknown. Errors of the store, and of the round's own end, stay what they are.
func counted(err error) error {
	var app *temporal.ApplicationError
	switch _, failed := asFailure(err); {
	case err == nil, failed, errors.As(err, &app), errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrCorrupt), errors.Is(err, session.ErrFenced):
		return err
	}
	return failures.Failf(failures.Unknown, "%s", err)
}
