package workflows

import (
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// The waits of a ticket's workflow.
const (
	// ticketCallLimit bounds one call of the ticket system. A worker that dies in
	// the middle of one goes unnoticed until then.
	ticketCallLimit = 2 * time.Minute
	// pollerTimeout is how long a call waits for a worker before the ticket says
	// that there is none; pollerTimeoutMax once it has said so.
	pollerTimeout    = time.Minute
	pollerTimeoutMax = 5 * time.Minute
	// firstWait doubles up to steadyWait; after patientTries tries in a row it
	// doubles on up to longWait.
	firstWait  = 5 * time.Second
	steadyWait = time.Minute
	longWait   = 5 * time.Minute
	// maxRetryAfter bounds a wait that the ticket system, or a proxy in front of it, asks for.
	maxRetryAfter = time.Hour
	patientTries  = 15
	// defaultIndexDelay is used where the worker does not say how long after its
	// creation a ticket may not be found.
	defaultIndexDelay = textfmt.Duration(2 * time.Minute)
	// searchWait is the wait between two searches for a ticket that may be there.
	searchWait = 5 * time.Second
	// goneLimit is how long a notice waits for a ticket that is not there, and that
	// nobody may make.
	goneLimit = 7 * 24 * time.Hour
)

// faultOf reads the ticket system's answer; said is false if it is not known what was done.
func faultOf(err error) (fault activities.TicketFault, said bool) {
	if queued(err) {
		return activities.TicketFault{Kind: session.Unreached, Message: fmt.Sprintf(
			"no worker has taken it up within %s; start one whose worker file has `jira`, with its credentials", pollerTimeout)}, true
	}
	return detail[activities.TicketFault](err, activities.TicketTroubled)
}

// queued reports whether an activity has never started.
func queued(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
}

// noteOutcome notes the outcome of a try, and returns the wait before the next one.
func (t *ticket) noteOutcome(err error) time.Duration {
	o := &t.outbox
	switch {
	case err == nil:
		o.succeeded()
		return 0
	case errors.Is(err, errUnsure):
		o.Record.Kind, o.Failed = session.Unclear, 0
		o.Record.Ticket.Trouble = fmt.Sprintf("the answer to the creation of a ticket was lost; searching for the ticket until %s, before another is made",
			o.Doubt.Add(o.IndexDelay.Std()).UTC().Format(time.TimeOnly+" MST"))
		return searchWait
	}
	fault, said := faultOf(err)
	if !said {
		fault = activities.TicketFault{Kind: session.Unreached, Message: "a worker was lost in the middle of it, or the ticket system took too long; trying again"}
		if !o.Doubt.IsZero() || o.Pending[0].Tried {
			fault.Kind = session.Unclear
		}
	}
	o.Failed++
	o.Record.Kind, o.Record.Ticket.Trouble = fault.Kind, fault.Message
	switch {
	case queued(err):
		return 0 // the next try waits in the queue
	case fault.Kind == session.Misconfigured:
		return longWait
	case fault.Kind == session.Gone && t.Fingerprint != "":
		return firstWait
	case fault.Kind == session.Gone:
		return longWait
	case fault.Kind == session.Unclear && !o.Doubt.IsZero():
		return searchWait
	case fault.RetryAfter > 0:
		return min(fault.RetryAfter.Std(), maxRetryAfter)
	}
	return waitAfter(o.Failed)
}

// waitAfter is the wait after so many tries in a row that failed.
func waitAfter(failed int) time.Duration {
	wait, limit := firstWait, steadyWait
	for n := 1; n < failed && wait < longWait; n++ {
		if n >= patientTries {
			limit = longWait
		}
		wait = min(2*wait, limit)
	}
	return wait
}

// pause waits before the next try. A misconfiguration is also tried again when a notice
// comes, since its session's worker may have been reconfigured; anything, at the update
// retry.
func (t *ticket) pause(ctx workflow.Context, wait time.Duration) error {
	timed, cancel := workflow.WithCancel(ctx)
	defer cancel()
	timer := workflow.NewTimerWithOptions(timed, wait, workflow.TimerOptions{Summary: "before the next try"})
	return workflow.Await(ctx, func() bool {
		return timer.IsReady() || t.retryNow || t.noticed && t.outbox.Record.Kind == session.Misconfigured || t.continues(ctx)
	})
}
