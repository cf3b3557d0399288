package workflows

import (
	"cmp"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// openApproval opens the request for the approval of a phase that is done.
func (s *sessionRun) openApproval(ctx workflow.Context, p *phase) *request {
	var used cost.Usage
	for _, persona := range p.Personas {
		used = used.Add(s.Status.Assignment(spec.AssignmentID{Phase: p.Name, Persona: persona}).Usage)
	}
	r := &request{Request: session.Request{
		Kind: session.ForApproval, Phase: p.Name, Usage: used, Actions: session.ForApproval.Rule().Actions,
		Quorum: session.NewQuorum(p.Approve, s.Status.StartedBy, s.Status.StartedByID, p.Approvals),
	}}
	r.Message = s.approvalMessage(r)
	return s.openRequest(ctx, r)
}

// approvalMessage returns the message of a request for approval. It says what the phase's merge
// has dropped.
func (s *sessionRun) approvalMessage(r *request) string {
	text := fmt.Sprintf("phase %s is done and waits for approval", r.Phase)
	if r.Quorum != nil {
		text = r.Quorum.String()
	}
	for _, a := range s.phaseStatus(r.Phase).Assignments {
		for _, dropped := range a.Dropped {
			text += "; " + dropped
		}
	}
	return textfmt.Shorten(text, 4*session.MaxMessage)
}

// reopenApproval opens the request for a phase that was done in an earlier run, unless it is
// open still, and waits for the answer.
func (s *sessionRun) reopenApproval(ctx workflow.Context, p *phase) error {
	p.Unapproved = false
	if p.approval == nil {
		p.approval = s.openApproval(ctx, p)
		refresh(&s.Status)
		if err := s.mark(ctx, nil); err != nil {
			return err
		}
	}
	return s.awaitApproval(ctx, p)
}

// awaitApproval waits after a recorded phase until it is approved, if it needs an approval.
// Phases that do not depend on it continue meanwhile. A rejection makes the phase repeat its
// work.
func (s *sessionRun) awaitApproval(ctx workflow.Context, p *phase) error {
	r := p.approval
	if r == nil {
		return nil
	}
	done := s.phaseStatus(p.Name).Status
	switch {
	case done != session.AwaitingApproval:
	case r.Notified: // by an earlier run
		done = s.phaseStatus(p.Name).Done(session.Completed)
	default: // since an earlier run
		done = session.Restored
	}
	s.setPhase(p.Name, session.AwaitingApproval)
	s.announce(ctx)
	if !r.Notified {
		r.Notified = true
		s.notify(ctx, session.ApprovalAsked, &r.Request, nil)
	}
	err := s.collectApprovals(ctx, r)
	if err == nil && s.ending.handsOver() {
		return errStopped // the next run waits for the answer
	}
	defer func() { r.closed = true }()
	if err != nil || s.ending.stopping() {
		return cmp.Or(err, errStopped) // the session ends, or the phase is done again
	}
	p.deciding = true
	defer func() { p.deciding = false }()
	if r.Answer.Action == session.AnswerReject {
		return s.reject(ctx, p, r)
	}
	p.approval = nil
	s.removeRequest(r)
	s.setPhase(p.Name, done)
	s.announce(ctx)
	if err := s.mark(ctx, r.Answer); err != nil {
		p.approval = r // the approval is not stored
		return err
	}
	r.applied = true
	s.notify(ctx, session.RequestClosed, &r.Request, r.Answer)
	return nil
}

// collectApprovals waits until [sessionRun.acceptAnswer] has set the answer of the request, because a phase is rejected or
// approved by enough persons, or until the session ends. It stores each approval after which others are still needed.
func (s *sessionRun) collectApprovals(ctx workflow.Context, r *request) error {
	for {
		err := workflow.Await(ctx, func() bool { return r.Answer != nil || len(r.Unsaved) > 0 || s.ending.stopping() })
		if err != nil || s.ending.stopping() || len(r.Unsaved) == 0 {
			return err
		}
		s.announce(ctx)
		if err := s.mark(ctx, &r.Unsaved[0]); err != nil {
			return err
		}
		r.Unsaved = r.Unsaved[1:]
	}
}
