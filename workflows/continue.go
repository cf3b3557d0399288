package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// Continued is the state with which a session continues as new, besides the store's data:
// phases, assignments and requests.
type Continued struct {
	// Large has the state if it is too large for a payload. Everything else is then empty.
	Large  *activities.LargeValue `json:"large,omitempty"`
	Team   spec.Team              `json:"team"`
	Status session.Status         `json:"status"`
	// Attributes, Fallbacks and Webhook are those of the [activities.Admission].
	Attributes bool              `json:"attributes,omitempty"`
	Fallbacks  map[string]string `json:"fallbacks,omitempty"`
	Webhook    bool              `json:"webhook,omitempty"`
	// Empty is the blob of a delta that changes nothing, once it is known.
	Empty spec.Digest `json:"empty,omitempty"`
	// Raised has the caps of budgets that were raised, and Raises counts the raises.
	Raised map[string]spec.Cap `json:"raised,omitempty"`
	Raises int                 `json:"raises,omitempty"`
	// Fingerprints are those of the failures that tickets were made for.
	Fingerprints []string `json:"fingerprints,omitempty"`
	// Ended are the last attempts, the oldest first: true for each that failed.
	Ended []bool `json:"ended,omitempty"`
	// Unreported are outcomes of rounds that were not delivered to breakers.
	Unreported []session.BreakerReport `json:"unreported,omitempty"`
	// Phases are in the team's order; Requests are the open ones, oldest first.
	Phases   []ContinuedPhase   `json:"phases"`
	Requests []ContinuedRequest `json:"requests,omitempty"`
}

// ContinuedPhase is the state of a phase between two runs.
type ContinuedPhase struct {
	Name string `json:"name"`
	Todo bool   `json:"todo,omitempty"`
	// Input is the manifest that it starts from; empty: it may not start yet.
	Input spec.Digest `json:"input,omitempty"`
	// Unapproved: a request for its approval has yet to be opened.
	Unapproved bool `json:"unapproved,omitempty"`
	// Approvals are those that its work has so far.
	Approvals []session.Approval `json:"approvals,omitempty"`
	Conflict  *ContinuedConflict `json:"conflict,omitempty"`
	// Settles is the persona who merges the conflicts of its input.
	Settles  string          `json:"settles,omitempty"`
	Rework   *session.Rework `json:"rework,omitempty"`
	SentBack int             `json:"sent_back,omitempty"`
	Merges   int             `json:"merges,omitempty"`
	// Assignments are in the order of the phase's personas.
	Assignments []ContinuedAssignment `json:"assignments,omitempty"`
}

// ContinuedConflict has the conflicts of concurrent phases.
type ContinuedConflict struct {
	Failure failures.Failure `json:"failure"`
	Merged  spec.Digest      `json:"merged,omitempty"`
	// List names the conflicts.
	List []session.Conflict `json:"list,omitempty"`
}

// ContinuedAssignment is the state of an assignment between two runs.
type ContinuedAssignment struct {
	Rounds   int                      `json:"rounds,omitempty"`
	Waits    int                      `json:"waits,omitempty"`
	Ordered  int                      `json:"ordered,omitempty"`
	Because  session.Because          `json:"because,omitempty"`
	Note     string                   `json:"note,omitempty"`
	Given    []session.Conflict       `json:"given,omitempty"`
	Dropped  []string                 `json:"dropped,omitempty"`
	Restored *activities.RestoredWork `json:"restored,omitempty"`
	// Work is its work in the pass under way; nil: none is under way.
	Work *AssignmentWork `json:"work,omitempty"`
}

// ContinuedRequest is an open request.
type ContinuedRequest struct {
	session.Request
	Stop     *activities.BudgetStop `json:"stop,omitempty"`
	Files    string                 `json:"files,omitempty"`
	OwnWork  bool                   `json:"own_work,omitempty"`
	Notified bool                   `json:"notified,omitempty"`
	Raises   int                    `json:"raises,omitempty"`
	Alerted  int                    `json:"alerted,omitempty"`
	// Unsaved are approvals that the store does not have yet.
	Unsaved []session.Answer `json:"unsaved,omitempty"`
	// Answer is an accepted answer that the next run applies.
	Answer *session.Answer `json:"answer,omitempty"`
}

// nextRun returns the input with which the session continues as new, when no phase is at work;
// nil: it ends in this run.
func (s *teamSession) nextRun(ctx, patient workflow.Context) *SessionInput {
	over := func() bool { return !s.ending.handsOver() || ctx.Err() != nil || s.publisher.allDone() }
	if over() {
		return nil
	}
	s.requests.withdrawAll(patient, func(r *request) bool { return r.stop == nil && r.obsolete != nil && r.obsolete() })
	err := workflow.Await(patient, func() bool {
		return over() || workflow.AllHandlersFinished(patient) && s.signals.allHandled() && s.notifier.pending == 0
	})
	if err != nil || over() {
		return nil
	}
	in := s.in
	in.Version, in.Run, in.Base, in.Continued = LogicVersion, s.status.Run+1, s.status.Checkpoint, s.continued()
	large, err := outsource(patient, in.Continued)
	switch {
	case err != nil:
		s.ending.fault = err
		return nil
	case large != nil:
		in.Continued = &Continued{Large: large}
	}
	return &in
}

// continued returns the state of the session for its next run.
func (s *teamSession) continued() *Continued {
	c := &Continued{
		Team: s.team, Status: s.status, Attributes: s.publisher.attributes, Fallbacks: s.agents.fallbacks,
		Webhook: s.notifier.webhook, Empty: s.checkpoints.empty, Raised: s.limits.raised, Raises: s.budgets.raises,
		Fingerprints: s.notifier.fingerprints, Ended: s.alerts.attempts, Unreported: s.reports.pending,
	}
	for _, p := range s.schedule.phases {
		c.Phases = append(c.Phases, s.schedule.continued(p))
	}
	for _, r := range s.requests.open {
		c.Requests = append(c.Requests, ContinuedRequest{r.Request, r.stop, r.files, r.ownWork, r.notified, r.raises, r.alerted, r.unsaved, r.answer})
	}
	return c
}

// continued returns the state of a phase.
func (s *schedule) continued(p *phase) ContinuedPhase {
	c := ContinuedPhase{
		Name: p.Name, Todo: p.todo, Input: p.input, Unapproved: p.unapproved, Approvals: p.approvals, Rework: p.rework, SentBack: p.sentBack, Merges: p.merges,
	}
	if p.conflict != nil {
		c.Conflict = &ContinuedConflict{p.conflict.failure, p.conflict.merged, p.conflict.list}
	}
	for i, persona := range p.Personas {
		state := s.assignment(spec.AssignmentID{Phase: p.Name, Persona: persona})
		a := ContinuedAssignment{Rounds: state.rounds, Waits: state.waits, Ordered: state.ordered, Because: state.because, Note: state.note, Given: state.given, Dropped: state.dropped, Restored: state.restored}
		if p.work != nil {
			a.Work = &p.work[i].AssignmentWork
		}
		c.Assignments = append(c.Assignments, a)
	}
	return c
}

// takeOver restores the state of the previous run. People can answer requests after it.
func (s *teamSession) takeOver(ctx workflow.Context, c *Continued) {
	s.team, s.status = c.Team, c.Status
	s.publisher.attributes, s.agents.fallbacks, s.notifier.webhook = c.Attributes, c.Fallbacks, c.Webhook
	s.checkpoints.empty, s.budgets.raises, s.notifier.fingerprints, s.reports.pending = c.Empty, c.Raises, c.Fingerprints, c.Unreported
	s.alerts.attempts = c.Ended
	for _, scope := range workflow.DeterministicKeys(c.Raised) {
		s.limits.raised[scope] = c.Raised[scope]
	}
	s.schedule.takeOver(c)
	for _, r := range c.Requests {
		s.takeOverRequest(&request{
			Request: r.Request, stop: r.Stop, files: r.Files, ownWork: r.OwnWork, notified: r.Notified, raises: r.Raises, alerted: r.Alerted,
			unsaved: r.Unsaved, answer: r.Answer,
		})
	}
	s.requests.updateStatus()
}

// takeOverRequest restores a request of the previous run.
func (s *teamSession) takeOverRequest(r *request) {
	s.requests.open = append(s.requests.open, r)
	switch r.Kind {
	case session.ForApproval:
		p := s.schedule.byName[r.Phase]
		p.approval, p.unapproved = r, true
	case session.ForOutage:
		s.schedule.assignment(spec.AssignmentID{Phase: r.Phase, Persona: r.Persona}).notice = r
	default:
		r.continued = true
	}
}

// takeOver restores the state of the phases in the previous run.
func (s *schedule) takeOver(c *Continued) {
	s.byName = map[string]*phase{}
	for i, before := range c.Phases {
		p := &phase{
			Phase: s.team.Phases[i], todo: before.Todo, input: before.Input, unapproved: before.Unapproved, approvals: before.Approvals, rework: before.Rework,
			sentBack: before.SentBack, merges: before.Merges,
		}
		if before.Conflict != nil {
			p.conflict = &mergeConflict{before.Conflict.Failure, before.Conflict.Merged, before.Conflict.List}
		}
		for j, a := range before.Assignments {
			id := spec.AssignmentID{Phase: p.Name, Persona: p.Personas[j]}
			state := s.assignment(id)
			state.rounds, state.waits, state.ordered, state.because, state.note, state.given, state.dropped, state.restored = a.Rounds, a.Waits, a.Ordered, a.Because, a.Note, a.Given, a.Dropped, a.Restored
			if a.Work != nil {
				p.work = append(p.work, &assignment{AssignmentWork: *a.Work, assignmentState: state})
			}
		}
		s.byName[p.Name] = p
		s.phases = append(s.phases, p)
	}
}
