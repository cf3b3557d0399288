package workflows

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/team"
)

// takeWord lets a person say that a parked session may go on: by an update,
// which answers, or by a signal, which needs no worker to be at hand.
func (s *session) takeWord(ctx workflow.Context) error {
	signals := workflow.GetSignalChannel(ctx, GoOnUpdate)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			var word GoOn
			signals.Receive(ctx, &word)
			if err := s.awaited(word); err != nil {
				workflow.GetLogger(ctx).Warn("a signal to go on is ignored", "error", err)
				continue
			}
			delete(s.parked, word.Phase)
		}
	})
	return workflow.SetUpdateHandlerWithOptions(ctx, GoOnUpdate,
		func(_ workflow.Context, word GoOn) error {
			delete(s.parked, word.Phase)
			return nil
		},
		workflow.UpdateHandlerOptions{
			Validator:   s.awaited,
			Description: `Lets a session go on that has parked after a phase. The argument names the phase: {"phase": "design", "by": "your name"}`,
		})
}

// awaited refuses a word that nobody waits for: a stale one, or a repeated one.
func (s *session) awaited(word GoOn) error {
	if s.parked[word.Phase] {
		return nil
	}
	waiting := "it is not parked"
	for _, p := range s.team.Phases {
		if s.parked[p.Name] {
			waiting = "it is parked after " + p.Name
		}
	}
	return temporal.NewApplicationErrorWithOptions(fmt.Sprintf("the session does not wait for a word on phase %q: %s", word.Phase, waiting),
		"NotAwaited", temporal.ApplicationErrorOptions{NonRetryable: true})
}

// pausesAfter tells whether the session is to park after a phase.
func (s *session) pausesAfter(phase string) bool {
	return slices.Contains(s.in.Course.PauseAfter, phase)
}

// heldBack tells whether a phase builds on one after which the session has parked.
func (s *session) heldBack(phase string) bool {
	return slices.ContainsFunc(s.team.Ancestors(phase), func(above string) bool { return s.parked[above] })
}

// park waits after a recorded phase for a person's word, if the session is to.
// What does not build on the phase goes on meanwhile.
func (s *session) park(ctx workflow.Context, phase string) error {
	if !s.parked[phase] {
		return nil
	}
	s.setPhase(phase, team.AwaitingApproval)
	s.standing()
	s.publish(ctx)
	s.remember(ctx)
	err := workflow.Await(ctx, func() bool { return !s.parked[phase] || s.stopping() })
	if err != nil || s.parked[phase] {
		return err // it ends parked: nobody has said a word
	}
	s.setPhase(phase, team.Completed)
	s.standing()
	s.publish(ctx)
	s.remember(ctx)
	if err := s.boundary.Lock(ctx); err != nil {
		return err
	}
	defer s.boundary.Unlock()
	return s.mark(ctx, phase)
}

// mark has the store know that the session parks for help, or goes on after a phase.
func (s *session) mark(ctx workflow.Context, phase string) error {
	return s.atBoundary(ctx, activities.MarkName, activities.MarkInput{
		Incarnation: s.status.Incarnation, Phase: phase, Help: s.status.Help, Reason: s.status.Reason,
	}, nil)
}

// standing says whether the session waits for a person or a breaker, or works.
func (s *session) standing() {
	s.status.Reason = ""
	s.status.Stand()
	switch {
	case len(s.status.Help) > 0:
		h := s.status.Help[0]
		s.status.Reason = fmt.Sprintf("%s/%s: %s; %s", h.Phase, h.Persona, h.Message, h.Advice)
		return
	case s.status.Status == team.WaitingForBreaker:
		return
	}
	for _, p := range s.team.Phases {
		if s.parked[p.Name] {
			s.status.Reason = fmt.Sprintf("phase %s is done; the session goes on at `maestro resume %s`, or at the update %s with {\"phase\": %q}",
				p.Name, s.status.Session, GoOnUpdate, p.Name)
		}
	}
}
