package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// sendBack makes an earlier phase repeat its work, for the reasons that a persona gives.
// After the permitted number of times, a person decides to send the work back once more,
// or to accept it: then there is no error. Otherwise errStopped ends the phase's work.
func (s *sessionRun) sendBack(ctx workflow.Context, p *phase, sender *assignment) error {
	rework := session.Rework{To: p.SendsBack.To, From: sender.AssignmentID, Count: p.TimesSentBack + 1, Of: p.SendsBack.Times}
	runs := s.Schedule.course.Selects(rework.To)
	for {
		rework.Reasons = reasons(sender, p.Work)
		if runs && s.Schedule.sendBacksLeft(p) > 0 {
			break
		}
		bound := "may be sent back only " + textfmt.Count(rework.Of, "time")
		if !runs {
			bound = "is not selected in this session"
		}
		f := failures.Failf(failures.Rejected, "%s", textfmt.Shorten(fmt.Sprintf("%s sends the work of phase %s back, which %s: %s",
			sender.AssignmentID, rework.To, bound, strings.Join(rework.Reasons, "; ")), session.MaxMessage))
		s.setAssignment(ctx, sender, session.Failed)
		report := append(slices.Clone(sender.Failures), session.AttemptFailure{Category: f.Category, Message: f.Message})
		if accepted, err := s.requestHelp(ctx, sender, *f, report); accepted || err != nil {
			return err
		}
		if runs && sender.Supplied == "" {
			if sender.Note != "" {
				rework.Reasons = append(rework.Reasons, "Note of a person: "+sender.Note)
			}
			break
		}
		if err := s.runAssignment(ctx, sender); err != nil || len(sender.SendsBack) == 0 {
			return err
		}
	}
	left := slices.DeleteFunc(slices.Clone(p.Work), func(a *assignment) bool { return !a.Status.Done() })
	return cmp.Or(s.redo(ctx, p, rework, left, nil), errStopped)
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
func (s *sessionRun) reject(ctx workflow.Context, p *phase, r *request) error {
	p.approval = nil
	s.removeRequest(r)
	err := s.redo(ctx, p, session.Rework{To: p.Name, By: r.Answer.By, Reasons: []string{r.Answer.Note}}, nil, r.Answer)
	if err == nil {
		r.applied = true
		s.notify(ctx, session.RequestClosed, &r.Request, r.Answer)
	}
	return err
}

// redo undoes a phase and all phases that depend on it, so that they begin again. by is the
// phase that sends the work back; left is its work, which is in no checkpoint. errStopped
// means that the session ends first.
func (s *sessionRun) redo(ctx workflow.Context, by *phase, rework session.Rework, left []*assignment,
	answer *session.Answer,
) error {
	if err := s.boundaries.Lock(ctx); err != nil {
		return err
	}
	defer s.boundaries.Unlock()
	if s.ending.failed() { // nothing new starts, and what is at work is finished
		return errStopped
	}
	again := s.Schedule.undo(rework.To)
	if err := recall(ctx, again, by); err != nil {
		return err
	}
	rework.Open, rework.At = names(again), workflow.Now(ctx).UTC()
	for _, p := range again {
		s.reopen(ctx, p)
	}
	refresh(&s.Status)
	out, err := reworkSession.localFirst(ctx, activities.ReworkInput{
		Boundary: s.boundary(ctx), Rework: rework, Left: entries(left), Answer: answer,
	})
	if err != nil {
		return err
	}
	s.Status.Checkpoint = out.Head
	if from := s.Schedule.byName[rework.From.Phase]; from != nil { // nil if a person sends it back
		from.TimesSentBack++
	}
	for _, p := range again {
		p.Rework = &rework
	}
	s.Schedule.byName[rework.To].Input = out.Input
	s.publish(ctx)
	s.saveMemo(ctx)
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
func (s *sessionRun) reopen(ctx workflow.Context, p *phase) {
	if approval := s.Schedule.reopen(p); approval != nil {
		s.withdrawRequest(ctx, approval)
	}
	s.withdrawRequests(ctx, func(r *request) bool { return r.Phase == p.Name })
	s.setPhase(p.Name, session.Pending)
	for _, persona := range p.Personas {
		a := s.Status.Assignment(spec.AssignmentID{Phase: p.Name, Persona: persona})
		a.Status, a.Summary, a.Files, a.Awaits = session.Pending, "", 0, nil
	}
	s.completeStored = false
}
