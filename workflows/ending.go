package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// errStopped ends work on a phase early, and is no fault: the session ends, its next run continues
// the work, or the phase is done again.
var errStopped = errors.New("nothing more is done for the phase now")

// ending has the reason why the session ends. Zero: it does not end.
type ending struct {
	// failing: an assignment has failed for good, so nothing new starts.
	failing bool
	// request is the request that ended the session, and why says how; nil if none did.
	request *request
	why     string
	// fault is an internal error that ends the session.
	fault error
	// closing: the end of the session is decided and cannot change.
	closing bool
	// continues: the run is to continue as new once nothing is at work.
	continues bool
}

// stopping reports whether nothing new may start.
func (e *ending) stopping() bool { return e.failed() || e.continues }

// failed reports whether the session ends because something has failed for good.
func (e *ending) failed() bool { return e.failing || e.fault != nil }

// continuesAsNew reports whether the next run continues the waits of this one.
func (e *ending) continuesAsNew() bool { return e.continues && !e.failed() }

// pause waits on a timer that the Web UI's timeline explains, or until the session continues as
// new.
func (e *ending) pause(ctx workflow.Context, d time.Duration, summary string) error {
	timing, cancel := workflow.WithCancel(ctx)
	defer cancel()
	timer := workflow.NewTimerWithOptions(timing, d, workflow.TimerOptions{Summary: summary})
	return workflow.Await(ctx, func() bool { return timer.IsReady() || e.continuesAsNew() })
}

// fail ends the session because of a request.
func (e *ending) fail(r *request, why string) { e.failing, e.request, e.why = true, r, why }

// answer returns the answer to the request that ended the session; nil if there is none.
func (e *ending) answer() *session.Answer {
	if e.request == nil {
		return nil
	}
	return e.request.Answer
}

// maxReported is how many open requests the error of a workflow has. The session's status has all.
const maxReported = 50

// outcome returns how a session with unfinished phases ends: its state, the reason for people,
// and the error of its workflow. cancelled: the session was cancelled.
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
			temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{help[:min(len(help), maxReported)]}})
	default:
		err := e.faultOrUnknown()
		return session.Failed, err.Error(), err
	}
}

// faultOrUnknown returns the error that ends a session without another reason. It is not a
// CanceledError, which would end the workflow as cancelled although no one has cancelled it.
func (e *ending) faultOrUnknown() error {
	switch {
	case e.fault == nil:
		return temporal.NewNonRetryableApplicationError("internal error: some phases did not run, without a recorded reason; resume "+
			"the session", session.UnrecoverableError, nil)
	case temporal.IsCanceledError(e.fault):
		return temporal.NewNonRetryableApplicationError("internal error: a step of the session was cancelled without a request; "+
			"resume the session", session.UnrecoverableError, e.fault)
	}
	return e.fault
}

// isEndStored reports whether the stored status is final.
func (s *sessionRun) isEndStored() bool { return s.completeStored || s.endStored }

// storeEnd writes how the session ended.
func (s *sessionRun) storeEnd(ctx workflow.Context) error {
	if err := s.boundaries.Lock(ctx); err != nil {
		return err
	}
	defer s.boundaries.Unlock()
	s.endStored = true
	_, err := closeSession.localFirst(ctx, activities.CloseInput{Boundary: s.boundary(ctx)})
	return err
}
