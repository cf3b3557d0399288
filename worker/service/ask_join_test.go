package service_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/workflows"
)

// quarrel is a stand on which two personas of a phase write different versions of
// one file, and fix that only when a person has told them how.
func quarrel(t *testing.T) (*stand, spec.Team) {
	t.Helper()
	work := func(word string) agent.Definition {
		return shell(`cat > brief.json
			if grep -q 'use both' brief.json; then echo both > word; elif [ ! -e word ]; then echo ` + word + ` > word; fi; rm brief.json`)
	}
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"a": work("yes"), "b": work("no"), "c": shell("cat > /dev/null; cp word after")}})
	tm := short(spec.Phase{Name: "one", Personas: []string{"dev", "other"}}, spec.Phase{Name: "two", Personas: []string{"last"}})
	tm.Personas["last"] = spec.Persona{Role: "l", Agent: "c", Instructions: "do"}
	return s, tm
}

func TestPersonAnswersForAMergedTree(t *testing.T) {
	t.Parallel()
	for verb, want := range map[session.Action]string{session.AnswerRetry: "both\n", session.AnswerSkip: "no\n", session.AnswerSupply: "mine\n"} {
		t.Run(string(verb), func(t *testing.T) {
			t.Parallel()
			s, tm := quarrel(t)
			run := s.start("s", tm)
			h := s.asks("s")
			require.Equal(t, "one.other.1", h.ID)
			require.Equal(t, failures.ContractViolation, h.Category)
			_, err := s.answer("s", session.Answer{Request: h.ID, Action: verb, Note: "use both", Files: s.files(map[string]string{"word": "mine\n"})})
			require.NoError(t, err)
			require.NoError(t, run.Get(t.Context(), nil))
			require.Equal(t, want, s.tree("s")["after"])
			require.Empty(t, s.execution("s").Help)
		})
	}
}

func TestPersonAnswersForPhasesThatDoNotFitTogether(t *testing.T) {
	t.Parallel()
	for verb, want := range map[session.Action]string{session.AnswerRetry: "both\n", session.AnswerSkip: "no\n"} {
		t.Run(string(verb), func(t *testing.T) {
			t.Parallel()
			s, tm := quarrel(t)
			tm.Phases = []spec.Phase{
				{Name: "left", Personas: []string{"dev"}, Needs: []string{}},
				{Name: "right", Personas: []string{"other"}, Needs: []string{}},
				{Name: "joined", Personas: []string{"dev"}, Needs: []string{"left", "right"}},
			}
			run := s.start("s", tm)
			h := s.asks("s")
			require.Equal(t, "joined.dev.1", h.ID)
			_, err := s.answer("s", session.Answer{Request: h.ID, Action: verb, Note: "use both"})
			require.NoError(t, err)
			require.NoError(t, run.Get(t.Context(), nil))
			require.Equal(t, want, s.tree("s")["word"])
			require.Equal(t, session.Completed, s.execution("s").Phases[2].Status)
		})
	}
}

func TestPersonAnswersForLeavesThatDoNotFitTogether(t *testing.T) {
	t.Parallel()
	s, tm := quarrel(t)
	tm.Phases = []spec.Phase{
		{Name: "left", Personas: []string{"dev"}, Needs: []string{}},
		{Name: "right", Personas: []string{"other"}, Needs: []string{}},
	}
	run := s.start("s", tm)
	h := s.asks("s")
	require.Equal(t, []session.Action{session.AnswerSkip, session.AnswerAbort}, h.Actions)
	_, err := s.answer("s", session.Answer{Request: h.ID, Action: session.AnswerSkip})
	require.NoError(t, err)
	require.NoError(t, run.Get(t.Context(), nil))
	e := s.execution("s")
	require.Equal(t, session.Completed, e.Status.Status)
	require.Equal(t, []session.State{session.Completed, session.Completed}, []session.State{e.Phases[0].Status, e.Phases[1].Status})
	require.Equal(t, []session.State{session.Completed, session.Completed}, []session.State{e.Phases[0].Assignments[0].Status, e.Phases[1].Assignments[0].Status})
}

// TestDisputeOutlivesItsSession leaves it open which version stands, and resumes:
// the question is asked again, until somebody has answered it.
func TestDisputeOutlivesItsSession(t *testing.T) {
	t.Parallel()
	s, tm := quarrel(t)
	tm.Phases = []spec.Phase{
		{Name: "left", Personas: []string{"dev"}, Needs: []string{}},
		{Name: "right", Personas: []string{"other"}, Needs: []string{}},
	}
	resumed := func(n int) func(*workflows.SessionInput) {
		return func(in *workflows.SessionInput) { in.Base, in.Run = s.execution("s").Checkpoint, n }
	}
	run := s.start("s", tm)
	_, err := s.answer("s", session.Answer{Request: s.asks("s").ID, Action: session.AnswerAbort})
	require.NoError(t, err)
	require.Error(t, run.Get(t.Context(), nil))

	run = s.start("s", tm, resumed(2))
	var asked session.Request
	require.Eventually(t, func() bool {
		e := s.execution("s")
		if e.Run != 2 || len(e.Help) != 1 || e.Status.Status != session.HelpIsNeeded {
			return false
		}
		asked = e.Help[0]
		return true
	}, time.Minute, 20*time.Millisecond)
	require.Contains(t, asked.Message, "the work of all phases has a merge conflict")
	_, err = s.answer("s", session.Answer{Request: asked.ID, Action: session.AnswerSkip})
	require.NoError(t, err)
	require.NoError(t, run.Get(t.Context(), nil))

	result, err := s.run("s", tm, resumed(3))
	require.NoError(t, err, "what was answered is not asked again")
	require.NotEmpty(t, result.Checkpoint)
	require.Equal(t, session.Completed, s.execution("s").Status.Status)
}
