package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/workflows"
)

// reply keeps what an update has come to.
type reply struct{ refused, failed error }

func (r *reply) Accept()                   {}
func (r *reply) Reject(err error)          { r.refused = err }
func (r *reply) Complete(_ any, err error) { r.failed = err }

// resolve answers a request by an update.
func resolve(env *testsuite.TestWorkflowEnvironment, a session.Answer) *reply {
	r := &reply{}
	a.Request += "-default-"
	env.UpdateWorkflow(workflows.ResolveUpdate, "update-"+a.Request+string(a.Action)+a.Person+a.Group, r, a)
	return r
}

// TestApprovalInTheTaskOfTheEnd has a session cancelled while one approval is being
// kept and another one waits for that: the session ends, and the second person hears
// that the word came too late.
func TestApprovalInTheTaskOfTheEnd(t *testing.T) {
	t.Parallel()
	s := &stage{team: leaves(), course: session.Course{PauseAfter: []string{"left", "right"}}}
	late := &reply{}
	s.play(t, says(time.Hour, session.Answer{Request: "left.approval.1", Action: session.AnswerApprove}),
		func(env *testsuite.TestWorkflowEnvironment) {
			s.marking = func(activities.MarkInput) {
				late = resolve(env, session.Answer{Request: "right.approval.1", Action: session.AnswerApprove})
				env.CancelWorkflow()
			}
		})
	require.NoError(t, late.refused)
	require.ErrorContains(t, late.failed, "request right.approval.1-default- was withdrawn before its answer was applied")
	require.Equal(t, session.WasCancelled, s.closed[0].Status.Status)
}

// TestApprovalOfWorkThatIsSentBackMeanwhile has a person approve of work while what it
// builds on is sent back: the person hears that the word came too late, and the work is
// there to be approved of again.
func TestApprovalOfWorkThatIsSentBackMeanwhile(t *testing.T) {
	t.Parallel()
	tm := patient(phase("aside", "a"), phase("one", "b"), phase("two", "c"), phase("docs", "d"))
	tm.Phases[1].Needs, tm.Phases[3].Needs, tm.Phases[3].Approve = []string{}, []string{"one"}, spec.Approval{Count: 1}
	tm.Phases[2].SendsBack = &spec.SendsBack{To: "one", Times: 1}
	s := &stage{team: tm}
	late, advancing, looking := &reply{}, make(chan struct{}), make(chan struct{})
	s.round = func(in activities.RoundInput) (session.RoundResult, error) {
		switch {
		case in.Persona == "a":
			<-advancing
		case in.Persona == "c" && in.Rework == nil:
			<-looking
			return sendingBack(in, "no"), nil
		}
		return session.RoundResult{}, nil
	}
	env := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		s.onAdvance = func(in activities.AdvanceInput) {
			switch {
			case in.Phase == "docs" && len(s.advanced) == 2:
				close(advancing)
			case in.Phase == "aside":
				late = resolve(env, session.Answer{Request: "docs.approval.1", Action: session.AnswerApprove})
				close(looking)
				until(t, env, func(now session.Status) bool { // both wait for the boundary
					return len(now.Help) == 0 && now.Assignment(spec.AssignmentID{Phase: "two", Persona: "c"}).Status == session.Completed
				})
			}
		}
	}, says(time.Hour, session.Answer{Request: "docs.approval.2", Action: session.AnswerApprove}))
	require.NoError(t, env.GetWorkflowError())
	require.NoError(t, late.refused)
	require.ErrorContains(t, late.failed, "request docs.approval.1-default- was withdrawn before its answer was applied")
	require.Len(t, s.reworks, 1)
	require.Len(t, s.answers, 1)
}

// TestSessionThatEndsTakesNoMoreAnswers has a person abort one branch while another
// one still works, and somebody answer a third.
func TestSessionThatEndsTakesNoMoreAnswers(t *testing.T) {
	t.Parallel()
	tm := patient(phase("one", "a"), phase("two", "b"), phase("three", "c"))
	tm.Phases[1].Needs, tm.Phases[2].Needs = []string{}, []string{}
	tm.Retry.Rounds, tm.Retry.RoundInitial, tm.Retry.RoundMax = 2, textfmt.Duration(5*time.Hour), textfmt.Duration(5*time.Hour)
	s := &stage{team: tm, round: func(in activities.RoundInput) (session.RoundResult, error) {
		switch {
		case in.Persona == "c" && in.Round == 1:
			return session.RoundResult{}, failedRound(failures.APIError, "away") // a second round follows after 5 h
		case in.Persona == "c":
			return session.RoundResult{}, nil
		}
		return session.RoundResult{}, failedRound(failures.Auth, "no key")
	}}
	late := &reply{}
	env := s.play(t, says(time.Hour, session.Answer{Request: "one.a.1", Action: session.AnswerAbort}),
		func(env *testsuite.TestWorkflowEnvironment) {
			env.RegisterDelayedCallback(func() {
				late = resolve(env, session.Answer{Request: "two.b.1", Action: session.AnswerRetry})
			}, 2*time.Hour)
		})
	require.ErrorContains(t, env.GetWorkflowError(), "one/a needs help")
	require.ErrorContains(t, late.refused, "request two.b.1-default- is closed: the session is ending")
	require.Len(t, s.answers, 1)
	require.Len(t, s.advanced, 1, "what was at work is still finished")
	require.Len(t, s.closed[0].Status.Help, 2)
	got := status(t, env)
	require.Equal(t, []session.State{session.Failed, session.Failed, session.Completed},
		[]session.State{got.Phases[0].Status, got.Phases[1].Status, got.Phases[2].Status},
		"as the store has it, too")
}

// TestSessionIsNotCompleteBeforeItsApprovalIsKept has the last phase end while the
// approval of another one waits to be kept.
func TestSessionIsNotCompleteBeforeItsApprovalIsKept(t *testing.T) {
	t.Parallel()
	tm := patient(phase("middle", "b"), phase("left", "a"), phase("right", "c")) // in the order in which they take turns
	tm.Phases[1].Needs, tm.Phases[2].Needs = []string{}, []string{}
	s := &stage{team: tm, course: session.Course{PauseAfter: []string{"middle", "right"}}}
	released := make(chan struct{})
	s.round = func(in activities.RoundInput) (session.RoundResult, error) {
		if in.Persona == "a" {
			<-released
		}
		return session.RoundResult{}, nil
	}
	env := s.play(t, func(env *testsuite.TestWorkflowEnvironment) {
		s.onAdvance = func(activities.AdvanceInput) {
			if len(s.advanced) == 2 {
				resolve(env, session.Answer{Request: "middle.approval.1", Action: session.AnswerApprove})
			}
		}
		s.marking = func(in activities.MarkInput) {
			if in.Answer.Phase == "middle" {
				resolve(env, session.Answer{Request: "right.approval.1", Action: session.AnswerApprove})
				close(released)
				until(t, env, func(now session.Status) bool { // both wait for the boundary
					return len(now.Help) == 0 && now.Assignment(spec.AssignmentID{Phase: "left", Persona: "a"}).Status == session.Completed
				})
			}
		}
	})
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, s.answers, 2)
	for _, in := range s.advanced {
		require.False(t, in.Completes, in.Phase)
	}
	require.Len(t, s.closed, 1)
}

// TestRejectionTakesRestoredWorkAlong has a person reject what half a phase, restored
// and held back, builds on.
func TestRejectionTakesRestoredWorkAlong(t *testing.T) {
	t.Parallel()
	half := activities.RestoredWork{Output: "tree-old", CheckpointAssignment: session.CheckpointAssignment{
		AssignmentID:      spec.AssignmentID{Phase: "two", Persona: "b"},
		AssignmentSummary: session.AssignmentSummary{Status: session.Completed},
		BasedWork:         session.BasedWork{Input: "input-old", Work: session.Work{Delta: "delta-old"}},
	}}
	one := phase("one", "a")
	one.Approve = spec.Approval{Count: 1}
	s := &stage{
		team: patient(one, phase("two", "b", "c")), partial: []activities.RestoredWork{half},
		begun: map[string]spec.Digest{"two": "input-old"}, unapproved: []string{"one"},
	}
	env := s.play(t, says(time.Hour, session.Answer{Request: "one.approval.1", Action: session.AnswerReject, Note: "no"}),
		at(90*time.Minute, func(env *testsuite.TestWorkflowEnvironment) {
			open := status(t, env).Help[0]
			require.Equal(t, "maestro approve "+status(t, env).Session+" one --request "+open.ID, open.Command)
		}),
		says(2*time.Hour, session.Answer{Request: "one.approval.2", Action: session.AnswerApprove}))
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, []string{"one", "two"}, s.reworks[0].Rework.Open)
	require.ElementsMatch(t, []string{"one/a.1", "two/b.1", "two/c.1"}, s.order())
}

// disagreeing has two phases side by side, the first of which wants approval, and whose
// work is found not to fit together once the second has ended.
func disagreeing() *stage {
	tm := patient(phase("left", "a"), phase("right", "b"))
	tm.Phases[0].Approve, tm.Phases[1].Needs = spec.Approval{Count: 1}, []string{}
	s := &stage{team: tm, conflicts: map[string][]session.Conflict{"right": {{Path: "main.go"}}}}
	wait := make(chan struct{})
	s.round = func(in activities.RoundInput) (session.RoundResult, error) {
		if in.Persona == "b" {
			<-wait
		}
		return session.RoundResult{}, nil
	}
	s.onAdvance = func(in activities.AdvanceInput) {
		if in.Phase == "left" && len(s.advanced) == 1 {
			close(wait)
		}
	}
	return s
}

// TestApprovalStaysOpenAfterAConflictAtTheEnd has a person reject a phase while another one,
// at which the work of all was found not to fit together, waits for approval.
func TestApprovalStaysOpenAfterAConflictAtTheEnd(t *testing.T) {
	t.Parallel()
	s := disagreeing()
	s.team.Phases[1].Approve = spec.Approval{Count: 1}
	env := s.play(t, says(time.Hour, session.Answer{Request: "left.approval.1", Action: session.AnswerReject, Note: "no"}),
		says(2*time.Hour, session.Answer{Request: "left.approval.2", Action: session.AnswerApprove}),
		says(3*time.Hour, session.Answer{Request: "right.approval.1", Action: session.AnswerApprove}))
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, s.answers, 2)
}

// TestConflictAtTheEndIsOverWhenWorkIsDoneAgain has a person reject a phase while
// another one waits to hear what becomes of their disagreement.
func TestConflictAtTheEndIsOverWhenWorkIsDoneAgain(t *testing.T) {
	t.Parallel()
	s := disagreeing()
	late := &reply{}
	env := s.play(t, says(time.Hour, session.Answer{Request: "left.approval.1", Action: session.AnswerReject, Note: "no"}),
		says(3*time.Hour, session.Answer{Request: "left.approval.2", Action: session.AnswerApprove}),
		func(env *testsuite.TestWorkflowEnvironment) {
			env.RegisterDelayedCallback(func() { late = resolve(env, session.Answer{Request: "right.b.1", Action: session.AnswerSkip}) },
				2*time.Hour)
		})
	require.NoError(t, env.GetWorkflowError())
	require.ErrorContains(t, late.refused, "is not open")
	got := status(t, env)
	require.Equal(t, session.Completed, got.Phases[1].Status)
	require.Equal(t, session.Completed, got.Phases[1].Assignments[0].Status)
}

// until has an activity wait until the session's status is as wanted. It looks from
// the environment's own loop, between two workflow tasks.
func until(t *testing.T, env *testsuite.TestWorkflowEnvironment, wanted func(session.Status) bool) {
	seen := make(chan bool)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		env.RegisterDelayedCallback(func() { seen <- wanted(status(t, env)) }, 0)
		if <-seen {
			return
		}
	}
	t.Error("the session did not come to where it was to be")
}

// TestAMergeIsAskedAbout although the team has `help.mode: fail`, which is about failures.
func TestAMergeIsAskedAbout(t *testing.T) {
	t.Parallel()
	for _, mode := range []spec.MergeMode{spec.MergeAsk, spec.MergeAuto} {
		tm := newTeam(phase("one"))
		tm.Phases[0].Deliver = &spec.Deliver{To: "github", Merge: mode}
		tm.Help.GiveUpAfter = textfmt.Duration(24 * time.Hour)
		asked := false
		s := &stage{team: tm, round: func(activities.RoundInput) (session.RoundResult, error) {
			if !asked {
				asked = true
				return session.RoundResult{}, failedRound(failures.NeedsPerson, "it can be merged")
			}
			return session.RoundResult{}, nil
		}}
		env := s.play(t, says(time.Hour, session.Answer{Request: "one.delivery.1", Action: session.AnswerRetry}))
		if mode == spec.MergeAsk {
			require.NoError(t, env.GetWorkflowError())
		} else {
			requireHelp(t, env, "one/delivery failed: needs_person")
		}
	}
}
