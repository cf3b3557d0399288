package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/team"
	"github.com/maestro-hive/maestro/internal/terminal"
)

func crew() team.Team {
	return team.Team{
		Version: 1, Name: "crew",
		Personas: map[string]team.Persona{"dev": {Role: "Developer", Agent: "coder", Instructions: "x"}},
		Phases:   []team.Phase{{Name: "build", Personas: []string{"dev"}}, {Name: "ship", Personas: []string{"dev"}}},
	}.Resolved()
}

func TestChangesTellEachThingOnce(t *testing.T) {
	t.Parallel()
	step := func(change func(s *team.Status)) team.Status {
		s := team.NewStatus("s", crew())
		s.Status = team.Running
		change(&s)
		return s
	}
	dev := func(s *team.Status) *team.AssignmentStatus { return &s.Phases[0].Assignments[0] }
	steps := []struct {
		now  team.Status
		want []string
	}{
		{step(func(*team.Status) {}), []string{"session s of team crew: running"}},
		{step(func(s *team.Status) {
			s.Phases[0].Status, dev(s).Status, dev(s).Rounds = team.Running, team.Running, 1
			dev(s).Progress = "thinking\x1b[2J\nhard"
		}), []string{"build: started", "build/dev: thinking[2J hard"}},
		{step(func(s *team.Status) {
			s.Phases[0].Status, dev(s).Status, dev(s).Rounds, dev(s).LostWorkers = team.Running, team.Waiting, 1, 1
			dev(s).Failures = []team.AttemptFailure{{Category: team.Syntax, Message: "bad"}}
		}), []string{"build/dev: attempt 1 failed: syntax: bad", "build/dev: 1 worker lost; the work goes on, and no attempt is used up", "build/dev: waits for its next round"}},
		{step(func(s *team.Status) {
			s.Phases[0].Status, dev(s).Status, dev(s).Rounds, dev(s).LostWorkers = team.Completed, team.Completed, 2, 1
			dev(s).Failures = []team.AttemptFailure{{Category: team.Syntax, Message: "bad"}}
			dev(s).Summary, s.Usage = "done", team.Usage{InputTokens: 12345}
		}), []string{"build/dev: round 2", "build/dev: completed: done", "build: completed, 12,345 tokens so far"}},
		{step(func(s *team.Status) {
			*s = team.NewStatus("s", crew())
			s.Phases[0].Status, dev(s).Status, dev(s).Rounds, dev(s).LostWorkers = team.Completed, team.Completed, 2, 1
			dev(s).Failures = []team.AttemptFailure{{Category: team.Syntax, Message: "bad"}}
			s.Status = team.WasCancelled
		}), []string{"session s: cancelled"}},
	}
	var before team.Status
	for _, s := range steps {
		require.Equal(t, s.want, changes(terminal.Palette{}, before, s.now, nil))
		require.Empty(t, changes(terminal.Palette{}, s.now, s.now, nil))
		before = s.now
	}
}

func TestOutcomesHaveTheirCodes(t *testing.T) {
	t.Parallel()
	for state, want := range map[team.State]int{
		team.Completed: 0, team.Failed: 1, team.WasCancelled: 1, team.HelpIsNeeded: 3, team.AwaitingApproval: 3,
	} {
		require.True(t, settled(state))
		require.Equal(t, want, outcomeCode(state))
	}
	require.False(t, settled(team.Running))
}
