package service_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/store/state"
)

func TestFallbackWorksWhileTheBreakerIsOpen(t *testing.T) {
	t.Parallel()
	primary := shell(`echo '{"error":{"category":"api_error","message":"503"}}' > $MAESTRO_RESULT; exit 1`)
	primary.Breaker = spec.Breaker{Threshold: 1, Cooldown: textfmt.Duration(time.Hour)}
	primary.Fallback = "spare"
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"coder": primary, "spare": shell(`echo spare > done.txt`)}})
	tm := oneStep()
	_, err := s.run("opens", tm)
	require.ErrorContains(t, err, "503")

	dev := tm.Personas["dev"]
	dev.Fallback = true
	tm.Personas["dev"] = dev
	_, err = s.run("allowed", tm)
	require.NoError(t, err)
	a := s.execution("allowed").Phases[0].Assignments[0]
	require.Equal(t, "spare", a.Agent, "it is said who has worked")
	require.Equal(t, 1, a.Rounds, "being turned away by a breaker uses up no round")
	require.Equal(t, map[string]string{"done.txt": "spare\n"}, s.tree("allowed"))
	record, err := s.store.State.Record(t.Context(), state.Assignment{Key: s.key("allowed"), AssignmentID: spec.AssignmentID{Phase: "build", Persona: "dev"}})
	require.NoError(t, err)
	require.Equal(t, "spare", record.Rounds[0].Result.Agent)
}

func TestFallbackGoesOnWhenTheBudgetIsSpent(t *testing.T) {
	t.Parallel()
	dear := costing()
	dear.Fallback = "cheap"
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"a": dear, "cheap": shell(`echo cheap > cheap.txt`)}})
	_, err := s.run("s", threeSteps(spec.Budget{Tokens: 100, OnExceeded: spec.OnExceededDegrade}))
	require.NoError(t, err)
	e := s.execution("s")
	require.Equal(t, int64(60), e.Usage.Tokens(), "only the first attempt could be paid for")
	require.Equal(t, "cheap\n", s.tree("s")["cheap.txt"])
	for _, phase := range e.Phases[1:] {
		require.Equal(t, 1, phase.Assignments[0].Attempts)
		require.Equal(t, "cheap", phase.Assignments[0].Agent)
	}
}

func TestWorkThatAnAgentRefusesGoesToItsFallback(t *testing.T) {
	t.Parallel()
	primary := shell(`echo '{"error":{"category":"refused","message":"no"}}' > $MAESTRO_RESULT; exit 1`)
	primary.Fallback = "spare"
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"coder": primary, "spare": shell(`echo spare > done.txt`)}})
	tm := oneStep()
	tm.Retry.Rounds, tm.Retry.RoundInitial = 2, textfmt.Duration(10*time.Millisecond)
	dev := tm.Personas["dev"]
	dev.Fallback = true
	tm.Personas["dev"] = dev
	_, err := s.run("s", tm)
	require.NoError(t, err)
	a := s.execution("s").Phases[0].Assignments[0]
	require.Equal(t, 2, a.Rounds)
	require.Equal(t, failures.Refused, a.Failures[0].Category)
}
