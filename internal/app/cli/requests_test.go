package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/control"
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
		{"none open", selector{action: session.AnswerRetry}, nil, "session s has no open request"},
		{
			"another id",
			selector{action: session.AnswerRetry, request: "build.dev.0"},
			all,
			"request build.dev.0 is not open in session s; open requests:\n  build.dev.1",
		},
		{
			"another phase",
			selector{action: session.AnswerApprove, of: "build"},
			all,
			"no open request that can be answered with approve; open requests:\n  build.dev.1",
		},
		{
			"the wrong verb",
			selector{action: session.AnswerRetry},
			[]session.Request{forApproval()},
			"run `maestro approve s design`, or `maestro reject s design --note TEXT`",
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
			code := exitUsage
			if len(c.open) == 0 || c.sel.request != "" {
				code = exitFailed // somebody may have been faster
			}
			require.Equal(t, code, exitCode(err))
		})
	}
}
