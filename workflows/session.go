package workflows

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/team"
)

// TeamSession runs a team on a requirement: this is where a session starts.
//
// It asks for admission, then lets every phase run as soon as the phases that
// it needs are recorded. A session completes when every phase is. It fails with
// NotAdmitted before anything ran, or with HelpNeeded and the report of every
// attempt when an assignment's rounds are spent; what was at work then is still
// finished and recorded, and nothing new starts. A team that wants to be asked has
// its session wait for a person first: see [session.ask]. A cancelled session ends
// when its agents are gone.
func TeamSession(ctx workflow.Context, in SessionInput) (SessionResult, error) {
	s := newSession(ctx, in)
	if err := workflow.SetQueryHandlerWithOptions(ctx, StatusQuery,
		func() (team.Status, error) { return s.status, nil },
		workflow.QueryHandlerOptions{Description: "The session's phases, assignments, decisions and usage, as of the last finished step."},
	); err != nil {
		return SessionResult{}, err
	}
	// Before anything waits: an update that comes early gets an answer of ours.
	for _, take := range []func(workflow.Context) error{s.takeWord, s.takeRaises, s.takeAnswers} {
		if err := take(ctx); err != nil {
			return SessionResult{}, err
		}
	}
	s.takeTickets(ctx)
	s.takeOutages(ctx)
	if err := s.admit(ctx); err != nil {
		return SessionResult{}, err
	}
	return s.run(ctx)
}

func newSession(ctx workflow.Context, in SessionInput) *session {
	return &session{
		in: in, inputs: map[string]team.Digest{}, todo: map[string]bool{}, atWork: map[string]func(){}, seals: map[string]int{},
		partial: map[team.AssignmentID]activities.RestoredWork{}, counted: map[team.AssignmentID]*counts{}, notes: map[string]string{},
		broke: map[team.AssignmentID]activities.BudgetStop{}, outages: map[team.AssignmentID]*request{}, lasting: map[team.AssignmentID]activities.OutageNews{}, caps: map[string]team.Cap{}, asked: map[string]int{},
		parked: map[string]*request{}, unapproved: map[string]bool{}, disputes: map[string]dispute{},
		reworking: map[string]*team.Rework{}, recalled: map[string]bool{}, sentBack: map[string]int{},
		boundary: workflow.NewMutex(ctx), telling: workflow.NewMutex(ctx),
	}
}

// session is the control state of a running session.
type session struct {
	in     SessionInput
	team   team.Team
	status team.Status
	// attributes tells whether the namespace has Maestro's search attributes.
	attributes bool
	// head is the newest checkpoint; inputs has the input manifest of every
	// phase that may start.
	head   team.Digest
	inputs map[string]team.Digest
	// todo has the phases that have yet to be recorded; atWork ends the work of
	// those that are under way.
	todo   map[string]bool
	atWork map[string]func()
	// partial is the work that stands in phases that have yet to run.
	partial map[team.AssignmentID]activities.RestoredWork
	// counted numbers the activities of assignments, seals those of phases.
	counted map[team.AssignmentID]*counts
	seals   map[string]int
	// open are the requests for a person, oldest first; asked counts them.
	open  []*request
	asked map[string]int
	// parked has the phases after which a person's word is awaited; unapproved
	// those for which it is to be asked for again.
	parked     map[string]*request
	unapproved map[string]bool
	// disputes has the phases that build on work which does not fit together.
	disputes map[string]dispute
	// outages has the notices of assignments whose providers stay away.
	outages map[team.AssignmentID]*request
	// lasting has the assignments whose rounds wait for the end of an outage.
	lasting map[team.AssignmentID]activities.OutageNews
	// notes is what a person last said to an assignment's agent.
	notes map[string]string
	// nothing is the blob of a delta that changes nothing.
	nothing team.Digest
	// reworking says, by phase, for what it is done again; recalled that it is
	// being taken back; sentBack counts how often a phase has sent work back.
	reworking map[string]*team.Rework
	recalled  map[string]bool
	sentBack  map[string]int
	// told has the fingerprints of the failures that tickets were made for.
	told    []string
	telling workflow.Mutex
	notices int
	untold  int
	webhook bool
	// boundary lets one phase at a time add its checkpoint to the chain.
	boundary workflow.Mutex
	// endWritten: the last phase's checkpoint was that of a complete session.
	endWritten bool
	// unreported are outcomes of rounds that breakers have yet to hear of.
	unreported []team.BreakerReport
	// fallbacks names, by agent, those that may work in their place.
	fallbacks map[string]string
	// failing: an assignment has failed for good, so that nothing new starts; ended
	// is the request that nobody has helped with, and endedBy says why.
	failing bool
	ended   *request
	endedBy string
	// broke has the assignments that wait for a budget to be raised, and raises
	// counts how often one was; woken counts those that have gone on since.
	broke         map[team.AssignmentID]activities.BudgetStop
	raises, woken int
	// caps are those that were raised, by budget.
	caps map[string]team.Cap
	// closing: how the session has ended is decided, and nothing changes that.
	closing bool
	// fault is an error of the machinery that ends the session.
	fault error
}

// admit asks whether the team can work here and what of its work is at hand, and
// takes the first checkpoint.
func (s *session) admit(ctx workflow.Context) error {
	var a activities.Admission
	err := s.atBoundary(ctx, activities.AdmitName, activities.AdmitInput{
		At:    workflow.Now(ctx).UTC(),
		Store: s.in.Store, Team: s.in.Team, Requirement: s.in.Requirement,
		Workspace: s.in.Workspace, Incarnation: max(s.in.Incarnation, 1),
		Course: s.in.Course, Base: s.in.Base, Origin: s.in.Origin, ReportTo: s.in.ReportTo, OriginalRun: workflow.GetInfo(ctx).OriginalRunID,
	}, &a)
	if err != nil {
		return err
	}
	if len(a.Faults) > 0 {
		return temporal.NewApplicationErrorWithOptions("the session may not start: "+a.Faults[0], team.NotAdmitted,
			temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{a.Faults}})
	}
	started := workflow.GetInfo(ctx).WorkflowStartTime
	s.team, s.head, s.attributes, s.fallbacks, s.webhook = a.Team, a.Head, a.SearchAttributes, a.Fallbacks, a.Webhook
	s.status = team.NewStatus(workflow.GetInfo(ctx).WorkflowExecution.ID, a.Team)
	s.status.Status, s.status.Checkpoint, s.status.StartedAt = team.Running, a.Head, &started
	s.status.Incarnation, s.status.Origin = a.Incarnation, s.in.Origin
	s.takeOver(ctx, a)
	s.publish(ctx)
	return nil
}

// admitted tells whether the session knows its team, which every answer refers to.
func (s *session) admitted() bool { return s.status.Session != "" }

// awaitAdmission keeps signals that come early until they can be held against the team.
func (s *session) awaitAdmission(ctx workflow.Context) error {
	return workflow.Await(ctx, s.admitted)
}

// notAdmittedYet refuses updates that come before the session is admitted.
const notAdmittedYet = "the session is not admitted yet; it has yet to read its team from the store: try again in a moment"

// takeOver begins with the work that is at hand.
func (s *session) takeOver(ctx workflow.Context, a activities.Admission) {
	if len(a.Phases) > 0 {
		s.status.Phases, s.status.Decisions, s.status.Dropped = a.Phases, a.Decisions, a.Dropped
		s.status.Usage = s.status.Sum()
	}
	for _, phase := range a.Todo {
		s.todo[phase] = true
	}
	for _, w := range a.Partial {
		s.partial[w.AssignmentID] = w
	}
	for _, phase := range a.Unapproved {
		s.unapproved[phase] = true
	}
	s.takeReworks(a.Reworks)
	if a.Notes != nil {
		s.notes = a.Notes
	}
	for _, phase := range a.Todo {
		s.mayStart(ctx, phase, a.Inputs[phase], a.Merged[phase], a.Conflicts[phase])
	}
	for _, p := range s.team.Phases {
		if !s.todo[p.Name] { // all is done, and does not fit together
			s.mayStart(ctx, p.Name, "", "", a.Conflicts[p.Name])
		}
	}
}

// mayStart notes what a phase starts from, or why it cannot.
func (s *session) mayStart(ctx workflow.Context, phase string, input, merged team.Digest, conflicts []team.Conflict) {
	if input != "" {
		s.inputs[phase] = input
	}
	if len(conflicts) > 0 {
		s.cannotJoin(ctx, phase, merged, conflicts)
	}
}

// run lets all phases run, each in its own coroutine, and says how it ended.
func (s *session) run(ctx workflow.Context) (SessionResult, error) {
	phases := workflow.NewWaitGroup(ctx)
	for _, p := range s.team.Phases {
		if !s.in.Course.Selects(p.Name) {
			continue
		}
		phases.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer phases.Done()
			if err := s.runPhase(ctx, p); err != nil && s.fault == nil && ctx.Err() == nil {
				s.fault = err
			}
		})
	}
	// Wait for the coroutines even when the session is cancelled: they end
	// when their agents are gone, and only then is the session over.
	patient, _ := workflow.NewDisconnectedContext(ctx)
	phases.Wait(patient)
	for _, r := range s.open {
		r.over = true
	}
	if err := workflow.Await(patient, func() bool { return workflow.AllHandlersFinished(patient) }); err != nil {
		return SessionResult{}, err
	}
	s.closing = true
	return s.close(ctx, patient)
}

// runPhase takes a phase from its input to its checkpoint whenever it is to be
// done, until nothing is left that could send its work back.
func (s *session) runPhase(ctx workflow.Context, p team.Phase) error {
	for {
		err := workflow.Await(ctx, func() bool { return s.stopping() || s.begins(p.Name) || s.quiet() })
		if err != nil || s.stopping() || !s.begins(p.Name) {
			return err
		}
		if err := s.pass(ctx, p); err != nil {
			return err
		}
	}
}

// begins tells whether there is something to do for a phase now.
func (s *session) begins(phase string) bool {
	_, disputed := s.disputes[phase]
	return disputed || s.unapproved[phase] || s.todo[phase] && s.inputs[phase] != "" && !s.heldBack(phase)
}

// quiet tells whether no phase is left to run or to be decided on.
func (s *session) quiet() bool {
	return len(s.todo)+len(s.atWork)+len(s.disputes)+len(s.unapproved) == 0
}

// pass does what there is to do for a phase, once. What it builds on may be sent
// back meanwhile, which ends the pass and is no error.
func (s *session) pass(ctx workflow.Context, p team.Phase) error {
	ctx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	s.atWork[p.Name] = cancel
	err := s.work(ctx, p)
	delete(s.atWork, p.Name)
	if s.recalled[p.Name] && temporal.IsCanceledError(err) {
		return nil
	}
	return err
}

// work takes one phase from its input to its checkpoint, and past a person who is
// to approve of it. A phase that needs help in vain is no error.
func (s *session) work(ctx workflow.Context, p team.Phase) error {
	if d, ok := s.disputes[p.Name]; ok {
		return s.arbitrate(ctx, p, d)
	}
	if s.unapproved[p.Name] {
		return s.askAgain(ctx, p)
	}
	s.setPhase(p.Name, team.Running)
	s.show(ctx)
	input := s.inputs[p.Name]
	work := s.assignments(p, input)
	if ok, err := s.produce(ctx, p, work); err != nil || !ok {
		return err
	}
	if !p.Solo() {
		if sealed, err := s.seal(ctx, p, input, work); err != nil || !sealed {
			return err
		}
	}
	if err := s.advance(ctx, p, work); err != nil {
		return err
	}
	return s.park(ctx, p)
}

// stopping tells whether nothing new may start.
func (s *session) stopping() bool { return s.failing || s.fault != nil }

// advance adds the finished phase to the chain of checkpoints and lets the
// phases start that waited for it.
func (s *session) advance(ctx workflow.Context, p team.Phase, work []*assignment) error {
	if err := s.boundary.Lock(ctx); err != nil {
		return err
	}
	defer s.boundary.Unlock()
	in := activities.AdvanceInput{Boundary: s.step(ctx), Phase: p.Name, Head: s.head, Assignments: entries(work), Park: s.pausesAfter(p), Unreported: s.unreported}
	in.Ready, in.Last = s.unlockedBy(p.Name)
	in.Complete = in.Last && !in.Park && len(s.atWork) == 1 && len(s.parked)+len(s.unapproved)+len(s.disputes) == 0
	var approval *request
	if in.Park {
		approval = s.approval(ctx, p)
		in.Help = s.status.Help
	}
	var out activities.Advanced
	if err := s.atBoundary(ctx, activities.AdvanceName, in, &out); err != nil {
		if in.Park {
			s.withdraw(ctx, approval)
		}
		return err
	}
	s.endWritten = in.Complete && len(out.Conflicts[p.Name]) == 0
	s.unreported = append(out.Unreported, s.unreported[len(in.Unreported):]...)
	s.head, s.status.Checkpoint, s.status.Decisions = out.Head, out.Head, out.Decisions
	s.setPhase(p.Name, s.phase(p.Name).Done(team.Completed))
	delete(s.todo, p.Name)
	delete(s.reworking, p.Name)
	if in.Park {
		approval.left = out.Left
		s.parked[p.Name] = approval
	}
	for _, phase := range append(in.Ready, p.Name) {
		s.mayStart(ctx, phase, out.Inputs[phase], out.Merged[phase], out.Conflicts[phase])
	}
	s.publish(ctx)
	return nil
}

// unlockedBy lists the phases that may start once p is recorded, and tells
// whether p is the last. What is not to run keeps nothing waiting.
func (s *session) unlockedBy(p string) (ready []string, last bool) {
	last = true
	for _, next := range s.team.Phases {
		if !s.todo[next.Name] || next.Name == p {
			continue
		}
		last = false
		above := s.team.Ancestors(next.Name)
		if slices.Contains(above, p) && !slices.ContainsFunc(above, func(n string) bool { return n != p && s.todo[n] }) {
			ready = append(ready, next.Name)
		}
	}
	return ready, last
}

// phase returns where a phase stands, for changing.
func (s *session) phase(name string) *team.PhaseStatus {
	i := slices.IndexFunc(s.status.Phases, func(p team.PhaseStatus) bool { return p.Name == name })
	return &s.status.Phases[i]
}

// setPhase notes where a phase stands.
func (s *session) setPhase(name string, state team.State) { s.phase(name).Status = state }

// close writes how the session ended, and ends it that way.
func (s *session) close(ctx, patient workflow.Context) (SessionResult, error) {
	var end error
	s.reportLast(patient)
	switch {
	case s.allDone():
		s.status.Status = team.Completed
		if err := s.writeEnd(patient); err != nil {
			return SessionResult{}, err
		}
		s.remember(patient)
		s.show(patient)
		s.tellEnd(patient, team.SessionCompleted)
		return SessionResult{Checkpoint: s.head, Decisions: s.status.Decisions, Usage: s.status.Usage}, nil
	case ctx.Err() != nil:
		s.status.Status, s.status.Reason = team.WasCancelled, "the session was cancelled"
		end = temporal.NewCanceledError()
	case s.ended != nil:
		h := s.ended
		s.status.Status = team.Failed
		s.status.Reason = fmt.Sprintf("%s/%s %s: %s: %s", h.Phase, h.Persona, h.Need(), h.Category, h.Message)
		if s.endedBy != "" {
			s.status.Reason += " (" + s.endedBy + ")"
		}
		end = temporal.NewApplicationErrorWithOptions(s.status.Reason, team.HelpNeeded,
			temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{s.status.Help}})
	default:
		end = s.faultOrUnknown()
		s.status.Status, s.status.Reason = team.Failed, end.Error()
	}
	for i := range s.status.Phases {
		s.status.Phases[i].Close(s.status.Help)
	}
	err := s.atBoundary(patient, activities.CloseName, s.ending(patient), nil)
	if err != nil {
		workflow.GetLogger(ctx).Warn("the store does not know how the session ended", "error", err)
	}
	s.publish(patient)
	s.remember(patient)
	event := team.SessionFailed
	if s.status.Status == team.WasCancelled {
		event = team.SessionCancelled
	}
	s.tellEnd(patient, event)
	return SessionResult{}, end
}

// faultOrUnknown is the error that ends a session for which nothing else does. A
// CanceledError would end the workflow as cancelled, which nobody has asked for.
func (s *session) faultOrUnknown() error {
	switch {
	case s.fault == nil:
		return temporal.NewNonRetryableApplicationError("phases are left to do and nothing says why they do not run; resume the session", team.UnrecoverableError, nil)
	case temporal.IsCanceledError(s.fault):
		return temporal.NewNonRetryableApplicationError("a step of the session was cancelled, which nobody has asked for; resume the session", team.UnrecoverableError, s.fault)
	}
	return s.fault
}

// step is what every step between phases brings.
func (s *session) step(ctx workflow.Context) activities.Boundary {
	return activities.Boundary{At: workflow.Now(ctx).UTC(), Course: s.in.Course, OriginalRun: workflow.GetInfo(ctx).OriginalRunID}
}

// ending is what the store has to know of the session's end.
func (s *session) ending(ctx workflow.Context) activities.CloseInput {
	return activities.CloseInput{
		Boundary: s.step(ctx), Incarnation: s.status.Incarnation, Head: s.head, Status: s.status.Status, Reason: s.status.Reason, Help: s.status.Help,
	}
}

// writeEnd writes that the session is complete, unless its last phase has.
func (s *session) writeEnd(ctx workflow.Context) error {
	if s.endWritten {
		return nil
	}
	return s.atBoundary(ctx, activities.CloseName, s.ending(ctx), nil)
}
