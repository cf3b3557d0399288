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
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

var anHour = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// helpVerbs are what requests for help take.
var helpVerbs = []session.Action{session.AnswerRetry, session.AnswerSkip, session.AnswerSupply, session.AnswerAbort}

func forHelp() session.Request {
	return session.Request{
		ID: "build.dev.1", Kind: session.ForHelp, Phase: "build", Persona: "dev", Category: failures.TestFailure,
		Message:    "TestX fails",
		Suggestion: "look at the log", Command: "maestro resolve s retry --request build.dev.1", Actions: helpVerbs, Since: anHour,
		Until:    anHour.Add(7 * 24 * time.Hour),
		Attempts: []session.AttemptFailure{{Category: failures.TestFailure, Message: "TestX fails"}},
		Ticket:   &session.Ticket{Key: "MD-7", URL: "https://jira.example/browse/MD-7", Occurrences: 3},
	}
}

// betweenPhases is a later request of its assignment, about a conflict.
func betweenPhases() session.Request {
	return session.Request{
		ID: "ship.dev.2", Kind: session.ForHelp, Phase: "ship", Persona: "dev", Category: failures.ContractViolation, Since: anHour,
		Message:    "the input of phase ship has a merge conflict: a.txt",
		SkipEffect: "keeps the version of build/dev and drops that of plan/dev (a.txt)",
		Actions:    []session.Action{session.AnswerSkip, session.AnswerAbort},
	}
}

func forMoney() session.Request {
	return session.Request{
		ID: "ship.dev.1", Kind: session.ForBudget, Phase: "ship", Persona: "dev", Category: failures.TokenBudget,
		Message: "it is spent",
		Raise:   &session.BudgetRaise{Scope: session.BudgetOfPersona, Name: "dev", USD: true}, Actions: helpVerbs, Since: anHour,
	}
}

func forApproval() session.Request {
	return session.Request{
		ID: "design.approval.1", Kind: session.ForApproval, Phase: "design", Message: "phase design is done",
		Actions: []session.Action{session.AnswerApprove, session.AnswerReject}, Since: anHour,
	}
}

// at is an app two hours and three minutes after requests were made.
func at() *app {
	return newApp(Env{Now: func() time.Time { return anHour.Add(2*time.Hour + 3*time.Minute) }})
}

func TestRequestsSayWhatHappenedAndWhatCanBeTyped(t *testing.T) {
	t.Parallel()
	since := anHour
	for _, c := range []struct {
		name string
		open []session.Request
		want string
	}{
		{
			"a conflict, for the second time",
			[]session.Request{betweenPhases()},
			`ship/dev needs help: contract_violation: the input of phase ship has a merge conflict: a.txt
  request ship.dev.2 waiting since ` + terminal.Moment(&since) + ` (2h 3m)
  answer with:
    maestro resolve s skip --request ship.dev.2
      keeps the version of build/dev and drops that of plan/dev (a.txt)
    maestro resolve s abort --request ship.dev.2
      ends the session`,
		},
		{"budget beside another", []session.Request{forMoney(), forHelp()}, `ship/dev needs a larger budget: token_budget: it is spent
  request ship.dev.1 waiting since ` + terminal.Moment(&since) + ` (2h 3m)
  answer with:
    maestro budget raise s --persona dev --usd N
      continues where it stopped
    maestro resolve s retry --for ship/dev
      tries again with the remaining budget; --note TEXT gives it a hint
    maestro resolve s skip --for ship/dev
      continues without this work
    maestro resolve s supply PATH --for ship/dev
      uses your files, checked like an agent's
    maestro resolve s abort --for ship/dev
      ends the session`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := session.Status{Session: "s", Status: session.HelpIsNeeded, Help: c.open}
			got := at().requestLines(s, control.EntriesOf(s)[0], true)
			require.Equal(t, fields(c.want), fields(strings.Join(got, "\n")))
			s.Status = session.Failed
			ended := strings.Join(at().requestLines(s, control.EntriesOf(s)[0], true), "\n")
			for _, answering := range []string{
				"answer with:\n", "maestro resolve", "maestro approve", "maestro budget", "waiting since",
				"until",
			} {
				require.NotContains(t, ended, answering, "nobody answers a session that has ended")
			}
			require.Contains(t, ended, "asked "+terminal.Moment(&since))
			s.Reason = c.open[0].Subject() + " needed somebody (aborted by ann)"
			require.Contains(t, at().requestLines(s, control.EntriesOf(s)[0], true)[0], "aborted by ann",
				"it says what the request came to")
		})
	}
}

// fields leaves aside how columns are aligned.
func fields(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

func TestAnswersFindTheirRequest(t *testing.T) {
	t.Parallel()
	second := forHelp()
	second.ID, second.Persona = "build.tester.1", "tester"
	all := []session.Request{forHelp(), second, forApproval()}
	for _, c := range []struct {
		name string
		sel  selector
		open []session.Request
		want string // an id, or what the error says
	}{
		{"the only one", selector{action: session.AnswerRetry}, []session.Request{forHelp()}, "build.dev.1"},
		{"the only one that takes it", selector{action: session.AnswerApprove}, all, "design.approval.1"},
		{"by its phase", selector{action: session.AnswerReject, of: "design"}, all, "design.approval.1"},
		{"by its assignment", selector{action: session.AnswerSkip, of: "build/tester"}, all, "build.tester.1"},
		{"by its id", selector{action: session.AnswerAbort, request: "build.dev.1"}, all, "build.dev.1"},
		{
			"several",
			selector{action: session.AnswerRetry},
			all,
			"2 open requests that can be answered with retry; choose one with --request ID or --for PHASE/PERSONA:\n  build.dev.1  help " +
				"of build/dev",
		},
		{
			"another phase",
			selector{action: session.AnswerApprove, of: "build"},
			all,
			"no open request that can be answered with approve; open requests:\n  build.dev.1",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := c.sel.choose("s", c.open)
			if err == nil {
				require.Equal(t, c.want, got.ID)
				return
			}
			require.ErrorContains(t, err, c.want)
			require.Equal(t, exitUsage, exitCode(err))
		})
	}
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
	dev := spec.AssignmentID{Phase: "build", Persona: "dev"}
	var told []string
	for _, e := range (events{Status: s, passes: map[spec.AssignmentID]int{dev: 2, {Phase: "build"}: 2}}).all() {
		told = append(told, e.text)
	}
	require.Equal(t, []string{"build (pass 2): started", "build/dev (pass 2): completed", "build (pass 2): completed"}, told)
}
