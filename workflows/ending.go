package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/session"
)

// errSessionEnds ends a wait, because nothing new may start in this run.
var errSessionEnds = errors.New("the session ends")

// ignoreSessionEnd leaves out the error that only says that the session ends.
func ignoreSessionEnd(err error) error {
	if errors.Is(err, errSessionEnds) {
		return nil
	}
	return err
}

// ending says whether the session ends, and why. Its zero value: it does not.
type ending struct {
	// failing: an assignment has failed for good, so nothing new starts.
	failing bool
	// request is the one that ended the session, and why says how; nil: none did.
	request *request
	why     string
	// fault is an error of the machinery that ends the session.
	fault error
	// closing: it is decided how the session ends, and nothing changes that.
	closing bool
	// continues: the run is to continue as new once nothing is at work.
	continues bool
}

// stopping reports whether nothing new may start.
func (e *ending) stopping() bool { return e.failed() || e.continues }

// failed reports whether the session ends because something has failed for good.
func (e *ending) failed() bool { return e.failing || e.fault != nil }

// handsOver reports whether the next run continues what waits in this one.
func (e *ending) handsOver() bool { return e.continues && !e.failed() }

// pause waits on a timer that the Web UI's timeline explains, or until the next run is to
// wait.
func (e *ending) pause(ctx workflow.Context, d time.Duration, summary string) error {
	timing, cancel := workflow.WithCancel(ctx)
	defer cancel()
	timer := workflow.NewTimerWithOptions(timing, d, workflow.TimerOptions{Summary: summary})
	return workflow.Await(ctx, func() bool { return timer.IsReady() || e.handsOver() })
}

// fail ends the session because of a request.
func (e *ending) fail(r *request, why string) { e.failing, e.request, e.why = true, r, why }

// answer is what a person answered to the request that ended the session; nil: nothing.
func (e *ending) answer() *session.Answer {
	if e.request == nil {
		return nil
	}
	return e.request.answer
}

// outcome is how a session ends whose phases are not all done: its state, the reason for
// people, and the error of its workflow. cancelled: the session was.
func (e *ending) outcome(cancelled bool, help []session.Request) (session.State, string, error) {
	switch {
	case cancelled:
		return session.WasCancelled, "the session was cancelled", temporal.NewCanceledError()
	case e.request != nil:
		h := e.request
		reason := fmt.Sprintf("%s/%s %s: %s: %s", h.Phase, h.Persona, h.Need(), h.Category, h.Message)
		if e.why != "" {
			reason += " (" + e.why + ")"
		}
		return session.Failed, reason, temporal.NewApplicationErrorWithOptions(reason, session.HelpNeeded,
			temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{help}})
	default:
		err := e.faultOrUnknown()
		return session.Failed, err.Error(), err
	}
}

// faultOrUnknown is the error that ends a session for which nothing else does. A
// CanceledError would end the workflow as cancelled, which nobody has asked for.
func (e *ending) faultOrUnknown() error {
	switch {
	case e.fault == nil:
		return temporal.NewNonRetryableApplicationError("internal error: some phases did not run, without a recorded reason; resume the session", session.UnrecoverableError, nil)
	case temporal.IsCanceledError(e.fault):
		return temporal.NewNonRetryableApplicationError("internal error: a step of the session was cancelled without a request; resume the session", session.UnrecoverableError, e.fault)
	}
	return e.fault
}
