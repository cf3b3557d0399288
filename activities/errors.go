package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/team"
)

// errHandedOver is the cause of a context that ends because the worker stops.
var errHandedOver = errors.New("the worker stops")

// errReplaced is the cause of a context that ends because Temporal has given up an
// execution that had not begun to work.
var errReplaced = errors.New("given up by Temporal")

// lasting tells whether a store's error will be the same next time: the content
// is gone or wrong, as opposed to a directory that cannot be used at the moment. A
// deadline or a cancellation says nothing about the content.
func lasting(err error) bool {
	_, failed := asFailure(err)
	return failed || errors.Is(err, team.ErrNotFound) ||
		errors.Is(err, team.ErrCorrupt) || errors.Is(err, team.ErrFenced)
}

// storeError is how a store's error leaves an activity: as retryable as it is.
func storeError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return err
	case lasting(err):
		return unrecoverable(RoundFailure{Failure: *lastingFailure(err)}, err)
	}
	return temporal.NewApplicationErrorWithOptions(err.Error(), team.StoreUnusable,
		temporal.ApplicationErrorOptions{Cause: err})
}

// lastingFailure says what a lasting error means for the session.
func lastingFailure(err error) *team.Failure {
	if failure, ok := asFailure(err); ok {
		return failure
	}
	f := team.Failf(team.ResourceError, "%s", team.Shorten(err.Error(), team.MaxMessage))
	f.Final = true
	return f
}

// asFailure tells a failure of the work from an error of the machinery.
func asFailure(err error) (*team.Failure, bool) {
	var failure *team.Failure
	ok := errors.As(err, &failure)
	return failure, ok
}

func recoverable(f team.Failure, wait time.Duration) error {
	return temporal.NewApplicationErrorWithOptions(team.Shorten(f.Error(), team.MaxMessage), team.RecoverableError,
		temporal.ApplicationErrorOptions{NextRetryDelay: wait})
}

func unrecoverable(report RoundFailure, cause error) error {
	report.Failure.Output = ""
	return temporal.NewApplicationErrorWithOptions(team.Shorten(report.Failure.Error(), team.MaxMessage), team.UnrecoverableError,
		temporal.ApplicationErrorOptions{NonRetryable: true, Cause: cause, Details: []any{report}})
}

// isAnswer tells whether an error says already what Temporal has to do.
func isAnswer(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app)
}

// handedOver has Temporal start the next execution at once, where it may.
func handedOver(why error) error {
	return temporal.NewApplicationErrorWithOptions(why.Error()+"; another takes over", team.HandedOver,
		temporal.ApplicationErrorOptions{NextRetryDelay: time.Millisecond})
}
