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

// patient makes a team of phases whose sessions wait for a person.
func patient(phases ...spec.Phase) spec.Team {
	t := newTeam(phases...)
	t.Help.Mode = spec.HelpAsk
	t.Retry = spec.Retry{Attempts: 1, Rounds: 1}
	return t
}

// says has a person answer a request after a while, by a signal. The environment has
// every run look like a reset one, which the ids of requests tell.
func says(after time.Duration, a session.Answer) func(*testsuite.TestWorkflowEnvironment) {
	a.Request += "-default-"
	return func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() { env.SignalWorkflow(workflows.ResolveUpdate, a) }, after)
	}
}

// sendingBack is the result of a round that sends work back.
func sendingBack(in activities.RoundInput, reason string) session.RoundResult {
	r := success(in)
	r.SendsBack = []string{reason}
	return r
}

// TestAcceptedWorkIsTheNextInput has the first of a sequence send work back in vain: once
// a person accepts the work as it is, those after it work on what it left.
func TestAcceptedWorkIsTheNextInput(t *testing.T) {
	t.Parallel()
	for order, input := range map[spec.Order]spec.Digest{spec.OrderSequence: "tree-two.tester.1", spec.OrderParallel: "input-two"} {
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()
			two := phase("two", "tester", "writer")
			two.Order, two.SendsBack = order, &spec.SendsBack{To: "one"}
			s := &stage{team: patient(phase("one", "dev"), two)}
			s.course.Only = []string{"two"} // so that nothing can be sent back
			s.round = func(in activities.RoundInput) (session.RoundResult, error) {
				if in.Persona == "tester" {
					return sendingBack(in, "no good"), nil
				}
				return session.RoundResult{}, nil
			}
			s.begun = map[string]spec.Digest{"two": "input-two"}
			env := s.play(t, says(time.Hour, session.Answer{Request: "two.tester.1", Action: session.AnswerSkip}))
			require.NoError(t, env.GetWorkflowError())
			require.Equal(t, input, s.rounds[len(s.rounds)-1].Input)
			require.Len(t, s.advanced, 1)
			require.Len(t, s.advanced[0].Assignments, 2, "nobody's work is left out")
			require.Equal(t, spec.Digest("delta-two.writer.1"), s.advanced[0].Assignments[1].Delta)
		})
	}
}

// TestAllReasonsArePassedOn has two personas of a phase send work back at once.
func TestAllReasonsArePassedOn(t *testing.T) {
	t.Parallel()
	two := phase("two", "tester", "reader")
	two.SendsBack = &spec.SendsBack{To: "one", Times: 1}
	s := &stage{team: patient(phase("one", "dev"), two)}
	s.round = func(in activities.RoundInput) (session.RoundResult, error) {
		if in.Phase == "two" && in.Rework == nil {
			return sendingBack(in, "not for the "+in.Persona), nil
		}
		return session.RoundResult{}, nil
	}
	require.NoError(t, s.play(t).GetWorkflowError())
	require.Len(t, s.reworks, 1)
	require.Equal(t, []string{"not for the tester", "reader adds: not for the reader"}, s.reworks[0].Rework.Reasons)
	require.Len(t, s.reworks[0].Left, 2)
	require.Equal(t, s.reworks[0].Rework.Reasons, s.rounds[3].Rework.Reasons)
	require.Equal(t, []any{1, session.BecauseSentBack}, []any{s.rounds[3].Ordered, s.rounds[3].Because})
}

// TestWhatOnePersonaFindsWantingIsAcceptedForItOnly has a person decide about every
// persona that sends work back.
func TestWhatOnePersonaFindsWantingIsAcceptedForItOnly(t *testing.T) {
	t.Parallel()
	two := phase("two", "tester", "reader")
	two.SendsBack = &spec.SendsBack{To: "one"}
	s := &stage{team: patient(phase("one", "dev"), two), begun: map[string]spec.Digest{"two": "input-two"}}
	s.course.Only = []string{"two"}
	s.round = func(in activities.RoundInput) (session.RoundResult, error) { return sendingBack(in, "no good"), nil }
	env := s.play(t, says(time.Hour, session.Answer{Request: "two.tester.1", Action: session.AnswerSkip}),
		says(2*time.Hour, session.Answer{Request: "two.reader.1", Action: session.AnswerSkip}))
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, s.answers, 2)
	require.Len(t, s.advanced, 1)
}

// TestNothingIsSentBackInASessionThatEnds has work found wanting after a person has
// aborted another branch: what is at work beside it is still finished and recorded.
func TestNothingIsSentBackInASessionThatEnds(t *testing.T) {
	t.Parallel()
	tm := patient(phase("aside", "a"), phase("one", "b"), phase("two", "c"), phase("docs", "d"))
	tm.Phases[1].Needs, tm.Phases[3].Needs, tm.Phases[2].SendsBack = []string{}, []string{"one"},
		&spec.SendsBack{To: "one", Times: 1}
	tm.Retry.Rounds, tm.Retry.RoundInitial, tm.Retry.RoundMax = 3, textfmt.Duration(5*time.Hour), textfmt.Duration(5*time.Hour)
	s := &stage{team: tm, round: func(in activities.RoundInput) (session.RoundResult, error) {
		switch {
		case in.Persona == "a":
			return session.RoundResult{}, failedRound(failures.Auth, "no key")
		case in.Persona == "c" && in.Round == 2:
			return sendingBack(in, "no"), nil
		case in.Persona == "c", in.Persona == "d" && in.Round < 3:
			return session.RoundResult{}, failedRound(failures.APIError, "away")
		}
		return session.RoundResult{}, nil
	}}
	env := s.play(t, says(time.Hour, session.Answer{Request: "aside.a.1", Action: session.AnswerAbort}))
	require.ErrorContains(t, env.GetWorkflowError(), "aside/a needs help")
	require.Empty(t, s.reworks)
	require.Len(t, s.advanced, 2)
	require.Equal(t, "docs", s.advanced[1].Phase)
}

// TestRoundsOfAForcedPhaseSaySo, and those of no other.
func TestRoundsOfAForcedPhaseSaySo(t *testing.T) {
	t.Parallel()
	s := &stage{team: patient(phase("one", "dev"), phase("two", "tester"))}
	s.course.Force = []string{"two"}
	require.NoError(t, s.play(t).GetWorkflowError())
	require.Equal(t, []bool{false, true}, []bool{s.rounds[0].Forced, s.rounds[1].Forced})
	require.Empty(t, s.rounds[1].Because)
}
