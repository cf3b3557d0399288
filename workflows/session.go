package workflows

import (
	"cmp"
	"errors"
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// TeamSession runs a team on a requirement. This file has the session from its start to its end:
// admission, phases, rounds, merge, checkpoint, approval, end.
//
// After admission, each phase starts when the phases that it needs are recorded. The session
// completes when all phases are recorded. It fails with NotAdmitted before any phase starts. When an
// assignment's rounds are used up, the session waits for a person. With `help.mode: fail`, or when nobody
// answers in time, it fails with HelpNeeded and the report of all attempts; running assignments still
// finish and are recorded. A cancelled session ends when its agents have ended. The session continues
// as new, with its [SessionState], when Temporal suggests it.
func TeamSession(ctx workflow.Context, in SessionInput) (SessionResult, error) {
	requireVersion(in.Version)
	s := newSessionRun(ctx, in)
	// Before any wait, so that early updates get a clear error.
	if err := s.registerHandlers(ctx); err != nil {
		return SessionResult{}, err
	}
	if err := s.admit(ctx); err != nil {
		if in.Continued == nil {
			return SessionResult{}, err
		}
		s.ending.fault = err // the session has been at work: its end is stored, and people are notified
		return s.end(ctx)
	}
	s.runPhases(ctx)
	if next := s.nextRun(ctx); next != nil {
		return SessionResult{}, workflow.NewContinueAsNewError(ctx, TeamSessionName, *next)
	}
	return s.end(ctx)
}

// sessionRun is one Temporal run of a session. Everything that the session's next run needs is in
// SessionState; the other fields belong to this run only.
type sessionRun struct {
	in SessionInput
	SessionState

	ending  ending
	signals signals
	// boundaries has one boundary written at a time, because each adds to the chain of checkpoints.
	// completeStored: the newest checkpoint is that of a complete session. endStored: the stored status
	// says how the session ended, and nothing replaces that.
	boundaries                workflow.Mutex
	completeStored, endStored bool
	// notices keeps notices in order; noticesSent counts them, and noticesPending those in flight.
	notices                     workflow.Mutex
	noticesSent, noticesPending int
	// opened counts the requests by what they are about. Their ids are made of it.
	opened map[string]int
	// waitingForBudgets counts the assignments that wait for a raise, and resumedFromBudgets those that
	// have continued since.
	waitingForBudgets, resumedFromBudgets int
	page                                  published
}

func newSessionRun(ctx workflow.Context, in SessionInput) *sessionRun {
	s := &sessionRun{in: in, boundaries: workflow.NewMutex(ctx), notices: workflow.NewMutex(ctx), opened: map[string]int{}}
	if in.Continued != nil && in.Continued.Large == nil {
		s.restore(*in.Continued)
	}
	return s
}

// registerHandlers registers the handlers of queries, updates and signals.
func (s *sessionRun) registerHandlers(ctx workflow.Context) error {
	if err := workflow.SetQueryHandlerWithOptions(ctx, StatusQuery,
		func() (session.Status, error) { return s.Status, nil },
		workflow.QueryHandlerOptions{Description: "The session's phases, assignments and usage, as of the last finished step."},
	); err != nil {
		return err
	}
	for _, register := range []func(workflow.Context) error{s.registerRaises, s.registerAnswers} {
		if err := register(ctx); err != nil {
			return err
		}
	}
	onSignal(ctx, &s.signals, TicketSignal, s.admitted, s.setTicket)
	onSignal(ctx, &s.signals, OutageSignal, s.admitted, s.noteOutage)
	onSignal(ctx, &s.signals, PullRequestSignal, s.admitted, s.wakeDelivery)
	s.signals.listen(ctx)
	return nil
}

// admit executes the admission: whether the session may start, and which of its work is
// reused. It takes over the first checkpoint.
func (s *sessionRun) admit(ctx workflow.Context) error {
	if s.in.Continued != nil && s.in.Continued.Large != nil {
		before, err := load[SessionState](ctx, *s.in.Continued.Large)
		if err != nil {
			return err
		}
		s.restore(before)
	}
	info := workflow.GetInfo(ctx)
	a, err := admitSession.localFirst(ctx, activities.AdmitInput{
		At: workflow.Now(ctx).UTC(), Start: s.in.Start, OriginalRun: info.OriginalRunID, FirstRun: info.FirstRunID,
		Continues: s.in.Continued != nil, Status: s.Status.Clone(),
	})
	if err == nil && a.Large != nil {
		a, err = load[activities.Admission](ctx, *a.Large)
	}
	switch {
	case err != nil:
		return err
	case len(a.Problems) > 0:
		return temporal.NewApplicationErrorWithOptions("the session cannot start: "+a.Problems[0], session.NotAdmitted,
			temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{a.Problems}})
	case s.in.Continued != nil:
		s.Status.Run, s.Status.Checkpoint = a.Status.Run, a.Status.Checkpoint
		s.publishNow(ctx)
		for _, r := range s.Requests {
			s.watchRequest(ctx, r)
		}
		return nil
	}
	s.takeAdmission(ctx, a)
	return nil
}

// takeAdmission sets the state of an admitted session.
func (s *sessionRun) takeAdmission(ctx workflow.Context, a activities.Admission) {
	s.Team, s.Fallbacks, s.Status = a.Team, a.Fallbacks, a.Status
	s.SearchAttributes, s.Webhook = a.SearchAttributes, a.Webhook
	started := workflow.GetInfo(ctx).WorkflowStartTime.UTC()
	s.Status.StartedAt = &started
	s.Schedule.load(&s.Team, s.in.Course, a)
	for _, name := range a.Todo {
		s.setInput(ctx, name, a.Inputs[name], a.Merged[name], a.Conflicts[name])
	}
	for _, p := range s.Schedule.Phases {
		if !p.Todo { // all is done, and does not fit together
			s.setInput(ctx, p.Name, "", "", a.Conflicts[p.Name])
		}
	}
	s.publish(ctx)
}

// runPhases has each phase done whenever there is something to do for it, in a coroutine for each
// time, until nothing is left that could send work back or the session stops.
// It stops also when Temporal suggests that it continues as new: nothing new starts from then
// on, and waits end. It returns when no phase is at work. That the session is cancelled is no error.
func (s *sessionRun) runPhases(ctx workflow.Context) {
	// Wait for the coroutines even when the session is cancelled: they end
	// when their agents are gone, and only then is the session over.
	disconnected, _ := workflow.NewDisconnectedContext(ctx)
	running := 0
	var waiting []*phase
	for !s.ending.stopping() && !s.Schedule.idle() {
		for _, p := range waiting {
			running++
			s.startPhase(ctx, p, func() { running-- })
		}
		err := workflow.Await(ctx, func() bool {
			s.ending.continues = workflow.GetInfo(ctx).GetContinueAsNewSuggested()
			waiting = s.Schedule.waiting()
			return len(waiting) > 0 || s.ending.stopping() || s.Schedule.idle() || s.publishIsDue(ctx)
		})
		if err != nil {
			break
		}
		s.publishDelayed(ctx)
	}
	for running > 0 {
		if workflow.Await(disconnected, func() bool { return running == 0 || s.publishIsDue(ctx) }) != nil {
			return
		}
		s.publishDelayed(ctx)
	}
}

// startPhase starts the work of a phase in a coroutine. It calls done when that has ended.
func (s *sessionRun) startPhase(ctx workflow.Context, p *phase, done func()) {
	workflow.GetLogger(ctx).Info("phase started", "phase", p.Name)
	working, cancel := workflow.WithCancel(ctx)
	p.cancel = cancel
	workflow.Go(working, func(working workflow.Context) {
		defer done()
		err := s.runPhase(working, p)
		p.cancel = nil
		cancel()
		switch {
		case err == nil, errors.Is(err, errStopped), ctx.Err() != nil, s.ending.fault != nil:
		case p.recalled && temporal.IsCanceledError(err): // work that the phase depends on was sent back
		default:
			s.ending.fault = err
		}
	})
}

// runPhase does what is to be done for a phase. errStopped ends it early.
func (s *sessionRun) runPhase(ctx workflow.Context, p *phase) error {
	switch {
	case p.Conflict != nil:
		return s.resolveConflict(ctx, p)
	case p.Unapproved:
		return s.reopenApproval(ctx, p)
	}
	steps := []func(workflow.Context, *phase) error{s.produce, s.merge, s.advance, s.awaitApproval}
	if p.Solo() { // one persona, nothing to merge
		steps = slices.Delete(steps, 1, 2)
	}
	for _, step := range steps {
		if err := step(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// produce executes the assignments of the phase.
func (s *sessionRun) produce(ctx workflow.Context, p *phase) error {
	s.setPhase(p.Name, session.Running)
	if p.Work == nil { // an earlier run has not begun it either
		for i, persona := range p.Personas {
			id := spec.AssignmentID{Phase: p.Name, Persona: persona}
			p.Work = append(p.Work, newAssignment(p.Assignments[i], *s.Status.Assignment(id), id, p.Input))
		}
	}
	for {
		if err := s.runAssignments(ctx, p.Order, p.Work); err != nil {
			return err
		}
		i := slices.IndexFunc(p.Work, func(a *assignment) bool { return len(a.SendsBack) > 0 })
		if i < 0 {
			return nil
		}
		// If a person accepts work that one of them sends back, the others continue from it.
		if err := s.sendBack(ctx, p, p.Work[i]); err != nil {
			return err
		}
	}
}

// runAssignments runs a phase's unfinished assignments: concurrently on the same input or, in sequence,
// each on the previous one's output, until one sends work back. If one of them has no result,
// concurrent ones still finish.
func (s *sessionRun) runAssignments(ctx workflow.Context, order spec.Order, work []*assignment) error {
	if order == spec.OrderSequence || len(work) == 1 {
		return s.runSequence(ctx, work)
	}
	var failed error
	all := workflow.NewWaitGroup(ctx)
	for _, a := range work {
		if a.finished() {
			continue
		}
		all.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer all.Done()
			if err := s.runAssignment(ctx, a); err != nil && (failed == nil || errors.Is(failed, errStopped)) {
				failed = err
			}
		})
	}
	disconnected, _ := workflow.NewDisconnectedContext(ctx)
	all.Wait(disconnected)
	return failed
}

func (s *sessionRun) runSequence(ctx workflow.Context, work []*assignment) error {
	for i, a := range work {
		if !a.finished() {
			if i > 0 {
				a.From, a.unrecorded = work[i-1].Output, entries(work[:i])
			}
			if err := s.runAssignment(ctx, a); err != nil {
				return err
			}
		}
		if len(a.SendsBack) > 0 { // later ones would use what is sent back
			return nil
		}
	}
	return nil
}

// advance adds the finished phase to the chain of checkpoints, and unlocks the phases
// that depend on it.
func (s *sessionRun) advance(ctx workflow.Context, p *phase) error {
	if err := s.boundaries.Lock(ctx); err != nil {
		return err
	}
	defer s.boundaries.Unlock()
	in := activities.AdvanceInput{
		Phase: p.Name, Assignments: entries(p.Work), AwaitsApproval: s.in.Course.PausesAfter(p.Phase),
	}
	in.Unlocks, in.NoneLeft = s.Schedule.unlockedBy(p)
	in.Completes = in.NoneLeft && !in.AwaitsApproval && s.Schedule.isOnlyRunning(p)
	var approval *request
	if in.AwaitsApproval {
		approval = s.openApproval(ctx, p)
	}
	in.Boundary = s.boundary(ctx)
	markDone(&in, p.Name)
	out, err := advanceSession.localFirst(ctx, in)
	if err != nil {
		if in.AwaitsApproval {
			s.withdrawRequest(ctx, approval)
		}
		return err
	}
	s.completeStored = in.Completes && len(out.Conflicts[p.Name]) == 0
	s.Status.Checkpoint = out.Head
	s.setPhase(p.Name, s.phaseStatus(p.Name).Done(session.Completed))
	p.Todo, p.Rework, p.Work = false, nil, nil
	if in.AwaitsApproval {
		approval.Files = out.Files
		p.approval = approval
	}
	for _, name := range append(in.Unlocks, p.Name) {
		s.setInput(ctx, name, out.Inputs[name], out.Merged[name], out.Conflicts[name])
	}
	s.publish(ctx)
	return nil
}

// boundary returns the common input of the steps between phases. It has a copy of the status,
// because a local activity gets the value without encoding it.
func (s *sessionRun) boundary(ctx workflow.Context) activities.Boundary {
	info := workflow.GetInfo(ctx)
	return activities.Boundary{
		At: workflow.Now(ctx).UTC(), Status: s.Status.Clone(), FirstRun: info.FirstRunID,
	}
}

// saveStatus writes the status, and the answer that the session continues with, if there is one. The
// status of a session that has ended stays.
func (s *sessionRun) saveStatus(ctx workflow.Context, answer *session.Answer) error {
	if err := s.boundaries.Lock(ctx); err != nil {
		return err
	}
	defer s.boundaries.Unlock()
	if s.isEndStored() {
		return nil
	}
	out, err := writeStatus.localFirst(ctx, activities.WriteStatusInput{Boundary: s.boundary(ctx), Answer: answer})
	if err == nil && out.Head != "" {
		s.Status.Checkpoint, s.EmptyDelta = out.Head, out.Nothing
	}
	return err
}

// markDone sets a phase to done in the status of a boundary.
func markDone(in *activities.AdvanceInput, name string) {
	for i, p := range in.Status.Phases {
		switch {
		case p.Name != name:
		case in.AwaitsApproval:
			in.Status.Phases[i].Status = session.AwaitingApproval
		default:
			in.Status.Phases[i].Status = p.Done(session.Completed)
		}
	}
	refresh(&in.Status)
}

// setInput sets the input of a phase, or the conflict because of which it cannot start. A phase with an input may start: see
// [schedule.ready].
func (s *sessionRun) setInput(ctx workflow.Context, name string, input, merged spec.Digest, conflicts []session.Conflict) {
	p := s.Schedule.byName[name]
	p.Input = cmp.Or(input, p.Input)
	if input != "" || merged != "" {
		for _, a := range p.Assignments {
			a.Given, a.DroppedByPerson = nil, nil
		}
	}
	if len(conflicts) > 0 {
		s.setConflict(ctx, p, merged, conflicts)
	}
}

// end writes how the session ended once all handlers of updates and signals have ended, and returns
// the result of the workflow. A cancelled session does this, too.
func (s *sessionRun) end(ctx workflow.Context) (SessionResult, error) {
	disconnected, _ := workflow.NewDisconnectedContext(ctx)
	s.closeRequests()
	if err := workflow.Await(disconnected, func() bool { return workflow.AllHandlersFinished(disconnected) }); err != nil {
		return SessionResult{}, err
	}
	s.ending.closing = true
	if s.allDone() {
		return s.complete(disconnected)
	}
	var end error
	s.Status.Status, s.Status.Reason, end = s.ending.outcome(ctx.Err() != nil, s.Status.Help)
	for i := range s.Status.Phases {
		s.Status.Phases[i].Close(s.Status.Help)
	}
	if err := s.storeEnd(disconnected); err != nil {
		workflow.GetLogger(disconnected).Warn("the session's end could not be stored", "error", err)
	}
	s.publish(disconnected)
	s.saveMemo(disconnected)
	event := session.SessionFailed
	if s.Status.Status == session.WasCancelled {
		event = session.SessionCancelled
	}
	s.notifyEnd(disconnected, event, s.ending.answer())
	return SessionResult{}, end
}

// complete writes that the session is complete, unless its last checkpoint says so.
func (s *sessionRun) complete(ctx workflow.Context) (SessionResult, error) {
	s.Status.Status = session.Completed
	if !s.completeStored {
		if err := s.storeEnd(ctx); err != nil {
			return SessionResult{}, err
		}
	}
	s.saveMemo(ctx)
	s.showPage(ctx)
	s.notifyEnd(ctx, session.SessionCompleted, nil)
	return SessionResult{Checkpoint: s.Status.Checkpoint, Usage: s.Status.Usage}, nil
}
