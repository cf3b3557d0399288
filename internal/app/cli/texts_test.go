package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
)

func TestAnAnswerIsForTheOnlyRequestThatTakesIt(t *testing.T) {
	t.Parallel()
	got, err := selector{action: session.AnswerApprove}.choose("s", []session.Request{
		{ID: "build.dev.1", Kind: session.ForHelp, Phase: "build", Persona: "dev", Actions: []session.Action{session.AnswerRetry}},
		{ID: "design.approval.1", Kind: session.ForApproval, Phase: "design", Actions: []session.Action{session.AnswerApprove}},
	})
	require.NoError(t, err)
	require.Equal(t, "design.approval.1", got.ID)
}

func crew() spec.Team {
	return spec.Team{
		Version: 1, Name: "crew",
		Personas: map[string]spec.Persona{"dev": {Role: "Developer", Agent: "coder", Instructions: "x"}},
		Phases:   []spec.Phase{{Name: "build", Personas: []string{"dev"}}, {Name: "ship", Personas: []string{"dev"}}},
	}.Resolved()
}

// said are the lines that an observer prints, without their times.
func said(t *testing.T, out *bytes.Buffer, lines *lineObserver, s session.Status) (texts []string) {
	t.Helper()
	out.Reset()
	lines.update(t.Context(), sessionstatus.Session{Status: s})
	for line := range strings.Lines(out.String()) {
		texts = append(texts, strings.TrimSpace(line[len(time.TimeOnly):]))
	}
	return texts
}

func newLines(out *bytes.Buffer, now time.Time) *lineObserver {
	a := newApp(Env{Stdout: out, Stderr: out, Now: func() time.Time { return now }})
	return newLineObserver(a.console, &lookout{session: "s", now: func() time.Time { return now }})
}

func TestChangesTellEachThingOnce(t *testing.T) {
	t.Parallel()
	s := session.NewStatus("s", crew())
	s.Status = session.Running
	dev := &s.Phases[0].Assignments[0]
	steps := []struct {
		happens func()
		want    []string
	}{
		{func() {}, []string{"session s of team crew: running"}},
		{func() {
			s.Phases[0].Status, dev.Status, dev.Rounds = session.Running, session.Running, 1
			dev.Progress = "thinking\x1b[2J\nhard"
		}, []string{"build: started", "build/dev: thinking hard"}},
		{func() {
			dev.Status, dev.LostWorkers, dev.Progress = session.Waiting, 1, ""
			dev.Failures = []session.AttemptFailure{{Category: failures.Syntax, Message: "bad"}}
		}, []string{
			"build/dev: attempt 1 failed: syntax: bad", "build/dev: 1 worker lost; the work continues, no attempt is counted",
			"build/dev: waits for its next round",
		}},
		{func() {
			s.Phases[0].Status, dev.Status, dev.Rounds = session.Completed, session.Completed, 2
			dev.Summary, s.Usage = "done", cost.Usage{InputTokens: 12345}
		}, []string{"build/dev: completed: done", "build: completed, 12,345 tokens so far"}},
		{func() { s.Status = session.WasCancelled }, []string{"session s: cancelled"}},
	}
	var out bytes.Buffer
	lines := newLines(&out, time.Unix(1_000_000, 0))
	for _, step := range steps {
		step.happens()
		require.Equal(t, step.want, said(t, &out, lines, s))
		require.Empty(t, said(t, &out, lines, s))
	}
}

// TestALookAtAPullRequestTellsNothing unless something has changed.
func TestALookAtAPullRequestTellsNothing(t *testing.T) {
	t.Parallel()
	step := func(checks int, next string) session.Status {
		s := session.NewStatus("s", crew())
		s.Status, s.Phases[0].Status = session.Running, session.Running
		s.Phases[0].PullRequest = &session.PullRequest{Repository: "a/b\x1b[2J", Number: 7, State: "open", ChecksPassed: checks}
		a := &s.Phases[0].Assignments[0]
		a.Status, a.Progress = session.Waiting, session.Outage{
			Failure: *failures.Failf(failures.Pending, "waits for a review"), Until: time.Date(2026, 11, 21, 12, len(next), 0, 0,
				time.UTC),
		}.String()
		return s
	}
	var out bytes.Buffer
	lines := newLines(&out, time.Unix(1_000_000, 0))
	require.Equal(t, []string{
		"build: started", "build/dev: waits for a review", "build: pull request #7 of a/b: open, 1 of 1 check passed",
		"session s of team crew: running",
	}, said(t, &out, lines, step(1, "")))
	require.Empty(t, said(t, &out, lines, step(1, "later")))
	require.Equal(t, []string{"build: pull request #7 of a/b: open, 2 of 2 checks passed"}, said(t, &out, lines, step(2, "later")))
}

// Who begins to watch late sees what happened, without times and costs that are not of then.
func TestWhatHappenedBeforeHasNoTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.Local)
	s := session.NewStatus("s", crew())
	s.Status, s.Usage = session.Running, cost.Usage{InputTokens: 12345}
	for i := range s.Phases {
		s.Phases[i].Status, s.Phases[i].Assignments[0].Status = session.Completed, session.Completed
	}
	s.Phases[0].Assignments[0].Failures = []session.AttemptFailure{{Category: failures.Syntax, Message: "bad"}}
	var out bytes.Buffer
	lines := newLines(&out, now)
	lines.update(t.Context(), sessionstatus.Session{Status: s})
	require.Equal(t, `          build: started
          build/dev: attempt 1 failed: syntax: bad
          build/dev: completed
          build: completed
          ship: started
          ship/dev: completed
          ship: completed
12:00:00  session s of team crew: running
`, out.String())
}

func TestWorkThatIsDoneAgainIsToldByItsPass(t *testing.T) {
	t.Parallel()
	s := session.NewStatus("s", crew())
	s.Phases[0].Status, s.Phases[0].Assignments[0].Status = session.Completed, session.Completed
	s.Phases[0].Assignments[0].Pass = 2
	var told []string
	for _, e := range (events{Status: s}).all() {
		told = append(told, e.text)
	}
	require.Equal(t, []string{"build (pass 2): started", "build/dev (pass 2): completed", "build (pass 2): completed"}, told)
}
