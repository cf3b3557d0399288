package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// SessionState is the state of a session besides the store's data. A session that continues as new
// hands over exactly this struct: its exported fields, and those of its phases, assignments and
// requests. Their unexported fields belong to one Temporal run; [sessionRun.restore] sets them.
type SessionState struct {
	// Large has the state if it is too large for a payload. Everything else is then empty.
	Large *activities.LargeValue `json:"large,omitempty"`

	Team   spec.Team      `json:"team"`
	Status session.Status `json:"status"`
	// SearchAttributes, Fallbacks and Webhook are those of the [activities.Admission].
	SearchAttributes bool              `json:"search_attributes,omitempty"`
	Fallbacks        map[string]string `json:"fallbacks,omitempty"`
	Webhook          bool              `json:"webhook,omitempty"`
	// EmptyDelta is the blob of a delta that changes nothing, once it is known.
	EmptyDelta spec.Digest `json:"empty_delta,omitempty"`
	// RaisedCaps has the caps of budgets that were raised, and RaiseCount counts the raises.
	RaisedCaps map[string]spec.Cap `json:"raised_caps,omitempty"`
	RaiseCount int                 `json:"raise_count,omitempty"`
	// Fingerprints are those of the failures that tickets were made for.
	Fingerprints []string `json:"fingerprints,omitempty"`
	// LastAttempts are the results of the last attempts, the oldest first: true for each that failed. There
	// are as many as the alert rules are about.
	LastAttempts []bool   `json:"last_attempts,omitempty"`
	Schedule     schedule `json:"schedule"`
	// Requests are the open ones, oldest first.
	Requests []*request `json:"requests,omitempty"`
}

// restore takes over the state of the previous run. People can answer requests after it.
func (s *sessionRun) restore(before SessionState) {
	s.SessionState = before
	s.Schedule.restore(&s.Team, s.in.Course)
	for _, r := range s.Requests {
		switch r.Kind {
		case session.ForApproval:
			p := s.Schedule.byName[r.Phase]
			p.approval, p.Unapproved = r, true
		case session.ForOutage:
			s.Schedule.assignment(spec.AssignmentID{Phase: r.Phase, Persona: r.Persona}).notice = r
		default:
			r.handedOver = true
		}
	}
	s.showRequests()
}

// nextRun returns the input with which the session continues as new, when no phase is at work;
// nil if it ends in this run.
func (s *sessionRun) nextRun(ctx workflow.Context) *SessionInput {
	disconnected, _ := workflow.NewDisconnectedContext(ctx)
	over := func() bool { return !s.ending.continuesAsNew() || ctx.Err() != nil || s.allDone() }
	if over() {
		return nil
	}
	s.withdrawRequests(disconnected, func(r *request) bool { return r.Stop == nil && r.obsolete != nil && r.obsolete() })
	err := workflow.Await(disconnected, func() bool {
		return over() || workflow.AllHandlersFinished(disconnected) && s.signals.allHandled() && s.noticesPending == 0
	})
	if err != nil || over() {
		return nil
	}
	in := s.in
	in.Version, in.Run, in.Base, in.Continued = LogicVersion, s.Status.Run+1, s.Status.Checkpoint, &s.SessionState
	large, err := outsource(disconnected, in.Continued)
	switch {
	case err != nil:
		s.ending.fault = err
		return nil
	case large != nil:
		in.Continued = &SessionState{Large: large}
	}
	return &in
}
