package workflows

import (
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// reworks makes phases repeat their work, because another phase or a person sent it back.
type reworks struct {
	status      *session.Status
	schedule    *schedule
	ending      *ending
	publisher   *publisher
	notifier    *notifier
	checkpoints *checkpoints
	requests    *requests
	rounds      *rounds
}

// sendBack makes an earlier phase repeat its work, for the reasons that a persona gives.
// After the permitted number of times, a person decides to send the work back once more,
// or to accept it. accepted: the person accepts it.
func (rw *reworks) sendBack(ctx workflow.Context, p *pass, sender *assignment) (accepted bool, err error) {
	rework := session.Rework{To: p.SendsBack.To, From: sender.AssignmentID, Pass: p.sentBack + 1, Of: p.SendsBack.Times}
	runs := rw.schedule.course.Selects(rework.To)
	for {
		rework.Reasons = reasons(sender, p.work)
		if runs && rework.Pass <= rework.Of {
			break
		}
		bound := fmt.Sprintf("exceeds the limit of %d times", rework.Of)
		if !runs {
			bound = "is not selected in this session"
		}
		f := failures.Failf(failures.Rejected, "%s", textfmt.Shorten(fmt.Sprintf("%s sends the work of phase %s back, which %s: %s",
			sender.AssignmentID, rework.To, bound, strings.Join(rework.Reasons, "; ")), session.MaxMessage))
		rw.publisher.update(ctx, sender, session.Failed)
		then, err := rw.requests.askForHelp(ctx, sender, *f, append(slices.Clone(sender.Failures), session.AttemptFailure{Category: f.Category, Message: f.Message}))
		if err != nil || then != outcomeRetry {
			return then == outcomeDone, err
		}
		if runs && sender.Supplied == "" {
			if sender.note != "" {
				rework.Reasons = append(rework.Reasons, "Note of a person: "+sender.note)
			}
			break
		}
		if ok, err := rw.rounds.run(ctx, sender); err != nil || !ok || len(sender.SendsBack) == 0 {
			return ok, err
		}
	}
	left := slices.DeleteFunc(slices.Clone(p.work), func(a *assignment) bool { return !a.Status.Done() })
	return false, ignoreSessionEnd(rw.redo(ctx, p.phase, rework, left, nil))
}

// reasons returns the reasons of the persona that sends work back, and of all others of its
// phase that do.
func reasons(sender *assignment, work []*assignment) []string {
	all := slices.Clone(sender.SendsBack)
	for _, a := range work {
		if a == sender {
			continue
		}
		for _, reason := range a.SendsBack {
			all = append(all, a.Persona+" adds: "+reason)
		}
	}
	return all
}

// reject makes a phase repeat its work, because a person rejects it.
func (rw *reworks) reject(ctx workflow.Context, p *pass, r *request) error {
	p.approval = nil
	rw.requests.remove(r)
	err := rw.redo(ctx, p.phase, session.Rework{To: p.Name, By: r.answer.By, Reasons: []string{r.answer.Note}}, nil, r.answer)
	if err == nil {
		r.applied = true
		rw.notifier.notify(ctx, session.WentOn, &r.Request, r.answer)
	}
	return ignoreSessionEnd(err)
}

// redo undoes a phase and all phases that depend on it, so that they begin again. by is the
// phase that sends the work back; left is its work, which is in no checkpoint. errSessionEnds
// means that the session ends first.
func (rw *reworks) redo(ctx workflow.Context, by *phase, rework session.Rework, left []*assignment, answer *session.Answer) error {
	if err := rw.checkpoints.mutex.Lock(ctx); err != nil {
		return err
	}
	defer rw.checkpoints.mutex.Unlock()
	if rw.ending.failed() { // nothing new starts, and what is at work is finished
		return errSessionEnds
	}
	again := rw.schedule.undo(rework.To)
	if err := recall(ctx, again, by); err != nil {
		return err
	}
	rework.Open, rework.At = names(again), workflow.Now(ctx).UTC()
	for _, p := range again {
		rw.reopen(ctx, p)
	}
	refresh(rw.status)
	out, err := reworkSession.atBoundary(ctx, activities.ReworkInput{
		Boundary: rw.checkpoints.boundary(ctx), Rework: rework, Left: entries(left), Answer: answer,
	})
	if err != nil {
		return err
	}
	rw.status.Checkpoint = out.Head
	if from := rw.schedule.byName[rework.From.Phase]; from != nil { // nil: a person sends it back
		from.sentBack++
	}
	for _, p := range again {
		p.rework = &rework
	}
	rw.schedule.byName[rework.To].input = out.Input
	rw.publisher.publish(ctx)
	rw.publisher.saveMemo(ctx)
	return nil
}

// recall cancels the work of phases that are to be repeated, and waits until their agents
// have ended.
func recall(ctx workflow.Context, phases []*phase, but *phase) error {
	for _, p := range phases {
		if p.cancel != nil && p != but {
			p.recalled = true
			p.cancel()
		}
	}
	err := workflow.Await(ctx, func() bool {
		return !slices.ContainsFunc(phases, func(p *phase) bool { return p != but && p.cancel != nil })
	})
	for _, p := range phases {
		p.recalled = false
	}
	return err
}

// reopen makes a phase repeat its work. Its cost is kept.
func (rw *reworks) reopen(ctx workflow.Context, p *phase) {
	if approval := rw.schedule.reopen(p); approval != nil {
		rw.requests.withdraw(ctx, approval)
	}
	rw.requests.withdrawAll(ctx, func(r *request) bool { return r.Phase == p.Name })
	rw.publisher.setPhase(p.Name, session.Pending)
	for _, persona := range p.Personas {
		a := rw.status.Assignment(spec.AssignmentID{Phase: p.Name, Persona: persona})
		a.Status, a.Summary, a.Awaits = session.Pending, "", nil
	}
	rw.checkpoints.complete = false
}
