package cli

import (
	"testing"
	"time"

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

// said are the texts of changes.
func said(all []change) (texts []string) {
	for _, c := range all {
		texts = append(texts, c.text)
	}
	return texts
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
		}), []string{"build: started", "build/dev: thinking hard"}},
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
		require.Equal(t, s.want, said(changes(terminal.Palette{}, before, s.now, history{})))
		require.Empty(t, said(changes(terminal.Palette{}, s.now, s.now, history{})))
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

// Who begins to watch late sees when things happened, and no cost that is not of then.
func TestOldChangesHaveTheirOwnTimes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.Local)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	s := team.NewStatus("s", crew())
	s.Status, s.Usage = team.Running, team.Usage{InputTokens: 12345}
	for i := range s.Phases {
		s.Phases[i].Status, s.Phases[i].Assignments[0].Status = team.Completed, team.Completed
	}
	s.Phases[0].Assignments[0].Failures = []team.AttemptFailure{{Category: team.Syntax, Message: "bad"}}
	known := history{now: now, work: map[team.AssignmentID]workDone{
		{Phase: "build", Persona: "dev"}: {started: ago(3 * time.Hour), failed: []time.Time{ago(25 * time.Hour), ago(2 * time.Hour)}, done: ago(time.Hour)},
	}}
	all := changes(terminal.Palette{}, team.Status{}, s, known)
	inTime(all)
	var lines []string
	for _, c := range all {
		lines = append(lines, stampOf(c.at, now, true)+" "+c.text)
	}
	require.Equal(t, []string{
		"12:00:00 session s of team crew: running", "09:00:00 build: started", "10:00:00 build/dev: attempt 1 failed: syntax: bad",
		"11:00:00 build/dev: completed", "11:00:00 build: completed",
		"         ship: started", "         ship/dev: completed", "         ship: completed",
	}, lines)
	require.Equal(t, "2026-11-20 11:00:00", stampOf(ago(25*time.Hour), now, true))
	require.Equal(t, "12:00:00", stampOf(time.Time{}, now, false))

	before := team.NewStatus("s", crew())
	known.work[team.AssignmentID{Phase: "ship", Persona: "dev"}] = workDone{done: ago(time.Second)}
	texts := said(changes(terminal.Palette{}, before, s, known))
	require.Contains(t, texts, "build: completed", "it is from an hour ago")
	require.Contains(t, texts, "ship: completed, 12,345 tokens so far")
}
