package workflows

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/team"
)

// takeWord lets a person say that a session that has parked after a phase may go
// on, by naming the phase: the short form of approving its request.
func (s *session) takeWord(ctx workflow.Context) error {
	signals := workflow.GetSignalChannel(ctx, GoOnUpdate)
	workflow.Go(ctx, func(ctx workflow.Context) {
		if s.awaitAdmission(ctx) != nil {
			return
		}
		for {
			var word GoOn
			signals.Receive(ctx, &word)
			if err := s.awaited(word); err != nil {
				workflow.GetLogger(ctx).Warn("a signal to go on is ignored", "error", err)
				continue
			}
			s.goOn(ctx, word)
		}
	})
	return workflow.SetUpdateHandlerWithOptions(ctx, GoOnUpdate,
		func(ctx workflow.Context, word GoOn) error {
			s.goOn(ctx, word)
			return nil
		},
		workflow.UpdateHandlerOptions{
			Validator:   s.awaited,
			Description: `Approves a phase, like resolve with the action approve. The argument names the phase: {"phase": "design", "by": "your name"}`,
		})
}

func (s *session) goOn(ctx workflow.Context, word GoOn) {
	s.accept(ctx, team.Answer{Request: s.parked[word.Phase].ID, Verb: team.Approving, By: word.By, Note: word.Note})
}

// awaited refuses a word that nobody waits for: a stale one, or a repeated one.
func (s *session) awaited(word GoOn) error {
	if !s.admitted() {
		return notAwaited(notAdmittedYet)
	}
	if s.awaits(s.parked[word.Phase]) {
		return nil
	}
	waiting := "it is not parked"
	for _, p := range s.team.Phases {
		if s.awaits(s.parked[p.Name]) {
			waiting = "it is parked after " + p.Name
		}
	}
	return notAwaited("the session does not wait for a word on phase %q: %s", word.Phase, waiting)
}

// pausesAfter tells whether the session is to park after a phase.
func (s *session) pausesAfter(p team.Phase) bool {
	return p.Approve || slices.Contains(s.in.Course.PauseAfter, p.Name)
}

// heldBack tells whether a phase builds on one after which the session has parked.
func (s *session) heldBack(phase string) bool {
	return slices.ContainsFunc(s.team.Ancestors(phase), func(above string) bool { return s.parked[above] != nil || s.unapproved[above] })
}

// approval asks for a person's word on a phase that is done.
func (s *session) approval(ctx workflow.Context, p team.Phase) *request {
	var used team.Usage
	for _, persona := range p.Personas {
		used = used.Add(s.status.Assignment(team.AssignmentID{Phase: p.Name, Persona: persona}).Usage)
	}
	return s.newRequest(ctx, team.HelpRequest{
		Kind: team.ForApproval, Phase: p.Name, Message: fmt.Sprintf("phase %s is done and waits for approval", p.Name), Usage: used,
		Answers: []team.Verb{team.Approving, team.Rejecting},
	})
}

// askAgain asks for approval of a phase that was done in an earlier incarnation.
func (s *session) askAgain(ctx workflow.Context, p team.Phase) error {
	delete(s.unapproved, p.Name)
	s.parked[p.Name] = s.approval(ctx, p)
	s.standing()
	if err := s.keep(ctx, "", nil); err != nil {
		return err
	}
	return s.park(ctx, p)
}

// park waits after a recorded phase for a person's word, if the session is to.
// What does not build on the phase goes on meanwhile. A rejection has the phase do
// its work again.
func (s *session) park(ctx workflow.Context, p team.Phase) error {
	r := s.parked[p.Name]
	if r == nil {
		return nil
	}
	defer func() { r.over = true }()
	done := s.phase(p.Name).Status
	if done == team.AwaitingApproval { // since an earlier incarnation
		done = team.Restored
	}
	s.setPhase(p.Name, team.AwaitingApproval)
	s.standing()
	s.publish(ctx)
	s.remember(ctx)
	r.told = true
	s.tell(ctx, team.ApprovalAsked, &r.HelpRequest, nil)
	err := workflow.Await(ctx, func() bool { return r.answer != nil || s.stopping() })
	if err != nil || s.stopping() {
		return err // it ends parked, or the phase is done again
	}
	if r.answer.Verb == team.Rejecting {
		return s.reject(ctx, p, r)
	}
	delete(s.parked, p.Name)
	s.forget(r)
	s.setPhase(p.Name, done)
	s.standing()
	s.publish(ctx)
	s.remember(ctx)
	if err := s.keep(ctx, p.Name, r.answer); err != nil {
		s.parked[p.Name] = r // nobody has heard the word
		return err
	}
	r.heeded = true
	s.tell(ctx, team.WentOn, &r.HelpRequest, r.answer)
	return nil
}

// standing says whether the session waits for a person or a breaker, or works.
func (s *session) standing() {
	s.status.Reason = ""
	s.status.Stand()
	if s.status.Status == team.WaitingForBreaker {
		return
	}
	if r := s.foremost(); r != nil {
		who := r.Phase
		if r.Persona != "" {
			who += "/" + r.Persona
		}
		s.status.Reason = who + ": " + r.Message
		switch {
		case r.Kind == team.ForOutage:
			s.status.Reason += "; it goes on by itself"
		case r.Command != "":
			s.status.Reason += fmt.Sprintf("; go on with `%s`", r.Command)
		}
	}
}

// foremost is the open request that a person should look at first: one for help before
// one for approval, and last the notice of an outage, which asks for nothing; nil: there
// is none.
func (s *session) foremost() *request {
	rank := map[team.RequestKind]int{team.ForApproval: 1, team.ForOutage: 2}
	var first *request
	for _, r := range s.open {
		if first == nil || rank[r.Kind] < rank[first.Kind] {
			first = r
		}
	}
	return first
}
