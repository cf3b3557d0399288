package workflows

import (
	"cmp"
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// phases executes phases, from their input to their checkpoint.
type phases struct {
	team        *spec.Team
	course      session.Course
	status      *session.Status
	schedule    *schedule
	ending      *ending
	publisher   *publisher
	notifier    *notifier
	checkpoints *checkpoints
	requests    *requests
	rounds      *rounds
	reports     *breakerReports
	merges      *merges
	reworks     *reworks
}

// step is a part of a pass. It returns false if the pass ends early: the phase has no result,
// or has sent work back.
type step func(workflow.Context, *pass) (bool, error)

// run has each phase done whenever there is something to do for it, in a coroutine that lasts
// for one pass, until nothing is left that could send work back or the session stops.
// It stops also when Temporal suggests that it continues as new: nothing new starts from then
// on, and waits end. It returns when no phase is at work. That the session is cancelled is no error.
func (ps *phases) run(ctx workflow.Context) {
	// Wait for the coroutines even when the session is cancelled: they end
	// when their agents are gone, and only then is the session over.
	patient, _ := workflow.NewDisconnectedContext(ctx)
	running := 0
	var waiting []*phase
	for !ps.ending.stopping() && !ps.schedule.idle() {
		for _, p := range waiting {
			running++
			ps.begin(ctx, p, func() { running-- })
		}
		err := workflow.Await(ctx, func() bool {
			ps.ending.continues = workflow.GetInfo(ctx).GetContinueAsNewSuggested()
			waiting = ps.schedule.waiting()
			return len(waiting) > 0 || ps.ending.stopping() || ps.schedule.idle() || ps.publisher.hasPending(ctx)
		})
		if err != nil {
			break
		}
		ps.publisher.catchUp(ctx)
	}
	for running > 0 {
		if workflow.Await(patient, func() bool { return running == 0 || ps.publisher.hasPending(ctx) }) != nil {
			return
		}
		ps.publisher.catchUp(ctx)
	}
}

// begin starts a phase's next pass. It calls done when the pass has ended.
func (ps *phases) begin(ctx workflow.Context, p *phase, done func()) {
	working, cancel := workflow.WithCancel(ctx)
	p.cancel = cancel
	workflow.Go(working, func(working workflow.Context) {
		defer done()
		err := ps.pass(working, &pass{phase: p, input: p.input})
		p.cancel = nil
		cancel()
		switch {
		case err == nil, ctx.Err() != nil, ps.ending.fault != nil:
		case p.recalled && temporal.IsCanceledError(err): // work that the phase depends on was sent back
		default:
			ps.ending.fault = err
		}
	})
}

// pass executes the next pass of a phase.
func (ps *phases) pass(ctx workflow.Context, p *pass) error {
	for _, next := range ps.steps(p.phase) {
		if ok, err := next(ctx, p); err != nil || !ok {
			return err
		}
	}
	return nil
}

// steps returns the steps of a phase's next pass.
func (ps *phases) steps(p *phase) []step {
	switch {
	case p.conflict != nil:
		return []step{ps.resolveConflict}
	case p.unapproved:
		return []step{ps.reopenApproval, ps.awaitApproval}
	case p.Solo():
		return []step{ps.produce, ps.advance, ps.awaitApproval}
	}
	return []step{ps.produce, ps.merges.run, ps.advance, ps.awaitApproval}
}

// produce executes the assignments of the phase.
func (ps *phases) produce(ctx workflow.Context, p *pass) (bool, error) {
	ps.publisher.setPhase(p.Name, session.Running)
	if p.work == nil { // an earlier run has not begun it either
		for _, persona := range p.Personas {
			id := spec.AssignmentID{Phase: p.Name, Persona: persona}
			p.work = append(p.work, newAssignment(ps.schedule.assignment(id), *ps.status.Assignment(id), id, p.input))
		}
	}
	for {
		if ok, err := ps.rounds.runAll(ctx, p.Order, p.work); err != nil || !ok {
			return false, err
		}
		i := slices.IndexFunc(p.work, func(a *assignment) bool { return len(a.SendsBack) > 0 })
		if i < 0 {
			return true, nil
		}
		// If a person accepts work that one of them sends back, the others continue from it.
		if accepted, err := ps.reworks.sendBack(ctx, p, p.work[i]); err != nil || !accepted {
			return false, err
		}
	}
}

// advance adds the finished phase to the chain of checkpoints, and unlocks the phases
// that depend on it.
func (ps *phases) advance(ctx workflow.Context, p *pass) (bool, error) {
	if err := ps.checkpoints.mutex.Lock(ctx); err != nil {
		return false, err
	}
	defer ps.checkpoints.mutex.Unlock()
	in := activities.AdvanceInput{
		Phase: p.Name, Assignments: entries(p.work), Park: ps.course.PausesAfter(p.Phase), Unreported: ps.reports.pending,
	}
	in.Ready, in.Last = ps.schedule.unlockedBy(p.phase)
	in.Complete = in.Last && !in.Park && ps.schedule.isOnlyRunning(p.phase)
	var approval *request
	if in.Park {
		approval = ps.openApproval(ctx, p.phase)
	}
	in.Boundary = ps.checkpoints.boundary(ctx)
	markDone(&in, p.Name)
	out, err := advanceSession.atBoundary(ctx, in)
	if err != nil {
		if in.Park {
			ps.requests.withdraw(ctx, approval)
		}
		return false, err
	}
	ps.checkpoints.complete = in.Complete && len(out.Conflicts[p.Name]) == 0
	ps.reports.sent(len(in.Unreported), out.Unreported)
	ps.status.Checkpoint = out.Head
	ps.publisher.setPhase(p.Name, ps.publisher.phase(p.Name).Done(session.Completed))
	p.todo, p.rework, p.work = false, nil, nil
	if in.Park {
		approval.files = out.Left
		p.approval = approval
	}
	for _, name := range append(in.Ready, p.Name) {
		ps.unlock(ctx, name, out.Inputs[name], out.Merged[name], out.Conflicts[name])
	}
	ps.publisher.publish(ctx)
	return true, nil
}

// markDone sets a phase to done in the status of a boundary.
func markDone(in *activities.AdvanceInput, name string) {
	for i, p := range in.Status.Phases {
		switch {
		case p.Name != name:
		case in.Park:
			in.Status.Phases[i].Status = session.AwaitingApproval
		default:
			in.Status.Phases[i].Status = p.Done(session.Completed)
		}
	}
	refresh(&in.Status)
}

// unlock sets the input of a phase, or the conflict because of which it cannot start.
func (ps *phases) unlock(ctx workflow.Context, name string, input, merged spec.Digest, conflicts []session.Conflict) {
	p := ps.schedule.byName[name]
	p.input = cmp.Or(input, p.input)
	if input != "" || merged != "" {
		for _, persona := range p.Personas {
			a := ps.schedule.assignment(spec.AssignmentID{Phase: name, Persona: persona})
			a.given, a.dropped = nil, nil
		}
	}
	if len(conflicts) > 0 {
		ps.setConflict(ctx, p, merged, conflicts)
	}
}
