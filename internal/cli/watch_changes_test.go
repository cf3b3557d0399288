package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/terminal"
)

func crew() spec.Team {
	return spec.Team{
		Version: 1, Name: "crew",
		Personas: map[string]spec.Persona{"dev": {Role: "Developer", Agent: "coder", Instructions: "x"}},
		Phases:   []spec.Phase{{Name: "build", Personas: []string{"dev"}}, {Name: "ship", Personas: []string{"dev"}}},
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
	step := func(change func(s *session.Status)) session.Status {
		s := session.NewStatus("s", crew())
		s.Status = session.Running
		change(&s)
		return s
	}
	dev := func(s *session.Status) *session.AssignmentStatus { return &s.Phases[0].Assignments[0] }
	steps := []struct {
		now  session.Status
		want []string
	}{
		{step(func(*session.Status) {}), []string{"session s of team crew: running"}},
		{step(func(s *session.Status) {
			s.Phases[0].Status, dev(s).Status, dev(s).Rounds = session.Running, session.Running, 1
			dev(s).Progress = "thinking\x1b[2J\nhard"
		}), []string{"build: started", "build/dev: thinking hard"}},
		{step(func(s *session.Status) {
			s.Phases[0].Status, dev(s).Status, dev(s).Rounds, dev(s).LostWorkers = session.Running, session.Waiting, 1, 1
			dev(s).Failures = []session.AttemptFailure{{Category: failures.Syntax, Message: "bad"}}
		}), []string{"build/dev: attempt 1 failed: syntax: bad", "build/dev: 1 worker lost; the work continues, no attempt is counted", "build/dev: waits for its next round"}},
		{step(func(s *session.Status) {
			s.Phases[0].Status, dev(s).Status, dev(s).Rounds, dev(s).LostWorkers = session.Completed, session.Completed, 2, 1
			dev(s).Failures = []session.AttemptFailure{{Category: failures.Syntax, Message: "bad"}}
			dev(s).Summary, s.Usage = "done", cost.Usage{InputTokens: 12345}
		}), []string{"build/dev: round 2", "build/dev: completed: done", "build: completed, 12,345 tokens so far"}},
		{step(func(s *session.Status) {
			*s = session.NewStatus("s", crew())
			s.Phases[0].Status, dev(s).Status, dev(s).Rounds, dev(s).LostWorkers = session.Completed, session.Completed, 2, 1
			dev(s).Failures = []session.AttemptFailure{{Category: failures.Syntax, Message: "bad"}}
			s.Status = session.WasCancelled
		}), []string{"session s: cancelled"}},
	}
	var before session.Status
	for _, s := range steps {
		require.Equal(t, s.want, said(changes(terminal.Palette{}, before, s.now, history{})))
		require.Empty(t, said(changes(terminal.Palette{}, s.now, s.now, history{})))
		before = s.now
	}
}

func TestOutcomesHaveTheirCodes(t *testing.T) {
	t.Parallel()
	for state, want := range map[session.State]int{
		session.Completed: 0, session.Failed: 1, session.WasCancelled: 1, session.HelpIsNeeded: 3, session.AwaitingApproval: 3,
	} {
		require.True(t, hasOutcome(state))
		require.Equal(t, want, outcomeCode(state))
	}
	require.False(t, hasOutcome(session.Running))
}

// Who begins to watch late sees when things happened, and no cost that is not of then.
func TestOldChangesHaveTheirOwnTimes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.Local)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	s := session.NewStatus("s", crew())
	s.Status, s.Usage = session.Running, cost.Usage{InputTokens: 12345}
	for i := range s.Phases {
		s.Phases[i].Status, s.Phases[i].Assignments[0].Status = session.Completed, session.Completed
	}
	s.Phases[0].Assignments[0].Failures = []session.AttemptFailure{{Category: failures.Syntax, Message: "bad"}}
	failed := func(attempt int, before time.Duration) control.Attempt {
		ended := ago(before)
		return control.Attempt{AttemptRef: control.AttemptRef{Attempt: attempt}, EndedAt: &ended}
	}
	known := history{now: now, work: map[spec.AssignmentID]workDone{
		{Phase: "build", Persona: "dev"}: {started: ago(3 * time.Hour), failed: []control.Attempt{failed(1, 25*time.Hour), failed(2, 2*time.Hour)}, done: ago(time.Hour)},
	}}
	all := changes(terminal.Palette{}, session.Status{}, s, known)
	var lines []string
	for _, c := range all {
		lines = append(lines, timestamp(c.at, now, true)+" "+c.text)
	}
	require.Equal(t, []string{
		"09:00:00 build: started", "10:00:00 build/dev: attempt 2 failed: syntax: bad",
		"11:00:00 build/dev: completed", "11:00:00 build: completed",
		"         ship: started", "         ship/dev: completed", "         ship: completed",
		"12:00:00 session s of team crew: running",
	}, lines)
	require.Equal(t, "2026-11-20 11:00:00", timestamp(ago(25*time.Hour), now, true))
	require.Equal(t, "12:00:00", timestamp(time.Time{}, now, false))

	before := session.NewStatus("s", crew())
	known.work[spec.AssignmentID{Phase: "ship", Persona: "dev"}] = workDone{done: ago(time.Second)}
	texts := said(changes(terminal.Palette{}, before, s, known))
	require.Contains(t, texts, "build: completed", "it is from an hour ago")
	require.Contains(t, texts, "ship: completed, 12,345 tokens so far")
}
