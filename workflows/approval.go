package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// openApproval opens the request for the approval of a phase that is done.
func (ps *phases) openApproval(ctx workflow.Context, p *phase) *request {
	var used cost.Usage
	for _, persona := range p.Personas {
		used = used.Add(ps.status.Assignment(spec.AssignmentID{Phase: p.Name, Persona: persona}).Usage)
	}
	r := &request{Request: session.Request{
		Kind: session.ForApproval, Phase: p.Name, Usage: used, Actions: session.ForApproval.Rule().Actions,
		Quorum: session.NewQuorum(p.Approve, ps.status.StartedBy, ps.status.StartedByID, p.approvals),
	}}
	r.Message = ps.requests.approvalMessage(r)
	return ps.requests.add(ctx, r)
}

// approvalMessage returns the message of a request for approval. It says what the phase's merge
// has dropped.
func (rs *requests) approvalMessage(r *request) string {
	text := fmt.Sprintf("phase %s is done and waits for approval", r.Phase)
	if r.Quorum != nil {
		text = r.Quorum.String()
	}
	for _, a := range rs.publisher.phase(r.Phase).Assignments {
		for _, dropped := range a.Dropped {
			text += "; " + dropped
		}
	}
	return textfmt.Shorten(text, 4*session.MaxMessage)
}

// reopenApproval opens it for a phase that was done in an earlier run, unless it is
// open still.
func (ps *phases) reopenApproval(ctx workflow.Context, p *pass) (bool, error) {
	p.unapproved = false
	if p.approval != nil { // an earlier run has opened it
		return true, nil
	}
	p.approval = ps.openApproval(ctx, p.phase)
	refresh(ps.status)
	err := ps.checkpoints.mark(ctx, nil)
	return err == nil, err
}

// awaitApproval waits after a recorded phase until it is approved, if it needs an approval.
// Phases that do not depend on it continue meanwhile. A rejection makes the phase repeat its
// work.
func (ps *phases) awaitApproval(ctx workflow.Context, p *pass) (bool, error) {
	r := p.approval
	if r == nil {
		return true, nil
	}
	done := ps.publisher.phase(p.Name).Status
	switch {
	case done != session.AwaitingApproval:
	case r.notified: // by an earlier run
		done = ps.publisher.phase(p.Name).Done(session.Completed)
	default: // since an earlier run
		done = session.Restored
	}
	ps.publisher.setPhase(p.Name, session.AwaitingApproval)
	ps.publisher.announce(ctx)
	if !r.notified {
		r.notified = true
		ps.notifier.notify(ctx, session.ApprovalAsked, &r.Request, nil)
	}
	err := ps.awaitAnswer(ctx, r)
	if err == nil && ps.ending.handsOver() {
		return false, nil // the next run waits for the answer
	}
	defer func() { r.closed = true }()
	if err != nil || ps.ending.stopping() {
		return false, err // the session ends, or the phase is done again
	}
	if r.answer.Action == session.AnswerReject {
		return false, ps.reworks.reject(ctx, p, r)
	}
	p.approval = nil
	ps.requests.remove(r)
	ps.publisher.setPhase(p.Name, done)
	ps.publisher.announce(ctx)
	if err := ps.checkpoints.mark(ctx, r.answer); err != nil {
		p.approval = r // the approval is not stored
		return false, err
	}
	r.applied = true
	ps.notifier.notify(ctx, session.WentOn, &r.Request, r.answer)
	return true, nil
}

// awaitAnswer waits until a phase is rejected, or approved by enough persons, or the session
// ends. It stores each approval after which others are still needed.
func (ps *phases) awaitAnswer(ctx workflow.Context, r *request) error {
	for {
		err := workflow.Await(ctx, func() bool { return r.answer != nil || len(r.unsaved) > 0 || ps.ending.stopping() })
		if err != nil || ps.ending.stopping() || len(r.unsaved) == 0 {
			return err
		}
		ps.publisher.announce(ctx)
		if err := ps.checkpoints.mark(ctx, &r.unsaved[0]); err != nil {
			return err
		}
		r.unsaved = r.unsaved[1:]
	}
}
