package tui_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/faces/tui"
	"github.com/maestro-hive/maestro/internal/testkit/golden"
)

// now is the moment of all pictures.
var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// working is a session with two personas in parallel in one of two branches.
func working() tui.Session {
	used := func(tokens int64, usd string) cost.Usage {
		u := cost.Usage{InputTokens: tokens}
		_ = u.CostUSD.UnmarshalJSON([]byte(usd))
		return u
	}
	limit := spec.Cap{Tokens: 1_000_000}
	return tui.Session{
		ID: "shortener-20261121-k3j2ab", Team: "shortener", State: session.Running, Run: 2,
		Requirement: "Build a URL shortener that keeps its links over a restart, and counts how often each was followed",
		Started:     now.Add(-252 * time.Second), Usage: used(412_345, "1.84"), Limit: limit, Spent: cost.Amount{Tokens: 412_345},
		Phases: []tui.Phase{
			{Name: "design", State: session.Completed, Assignments: []tui.Assignment{
				{
					Persona: "architect", State: session.Completed, Round: 1, Attempt: 2, Worked: 72 * time.Second, Usage: used(33_300, "0.12"),
					Summary: "Links live in SQLite; codes have seven letters.",
				},
			}},
			{Name: "implementation", State: session.Running, Needs: []string{"design"}, SentBack: true, Assignments: []tui.Assignment{
				{
					Persona: "backend", State: session.Running, Pass: 2, Round: 1, Attempt: 1, Worked: 72 * time.Second,
					Usage:    used(240_045, "0.94"),
					Progress: "go test ./store: 日本語 names \x1b[31mpass\x07",
				},
				{
					Persona: "frontend", State: session.Running, Pass: 2, Round: 2, Attempt: 3, Worked: 36 * time.Second,
					Usage:       used(120_000, "0.71"),
					Failures:    []session.AttemptFailure{{Category: failures.TestFailure, Message: "TestLogin: want 200, got 404"}},
					LostWorkers: 1,
				},
			}},
			{Name: "manual", State: session.Running, Needs: []string{"design"}, Assignments: []tui.Assignment{
				{
					Persona: "writer", State: session.Waiting, Round: 1, Attempt: 1, Usage: used(19_000, "0.07"),
					Progress: "waits for a free worker",
				},
			}},
			{
				Name: "testing", State: session.Pending, Needs: []string{"implementation"},
				Assignments: []tui.Assignment{{Persona: "tester", State: session.Pending}},
			},
			{
				Name: "release", State: session.Pending, Needs: []string{"testing", "manual"},
				Assignments: []tui.Assignment{{Persona: "operator", State: session.Pending}},
			},
		},
	}
}

// linear is a session of five phases in a row, each in a state.
func linear(state session.State, phases ...session.State) tui.Session {
	s := working()
	s.State, s.Phases, s.Limit = state, nil, spec.Cap{}
	for i, name := range []string{"requirements", "design", "implementation", "testing", "deployment"} {
		p := tui.Phase{Name: name, State: phases[i], Assignments: []tui.Assignment{
			{Persona: []string{"analyst", "architect", "developer", "tester", "operator"}[i], State: phases[i]},
		}}
		if i > 0 {
			p.Needs = []string{s.Phases[i-1].Name}
		}
		a := &p.Assignments[0]
		if phases[i] == session.AwaitingApproval {
			a.State = session.Completed
		}
		if phases[i] != session.Pending {
			a.Round, a.Attempt, a.Worked, a.Usage = 1, 1, time.Duration(i+1)*40*time.Second, cost.Usage{InputTokens: 12_345}
		}
		s.Phases = append(s.Phases, p)
	}
	return s
}

// situations are the sessions that are drawn, by name.
func situations() map[string]tui.Picture {
	done, open := session.Completed, session.Pending
	breaker := linear(session.WaitingForBreaker, done, session.Running, open, open, open)
	until := now.Add(192 * time.Second)
	breaker.Phases[1].Assignments[0].State = session.Waiting
	breaker.Phases[1].Assignments[0].Awaits = &session.BreakerWait{
		Breaker: "claude", Since: now, Until: &until,
		Why: "5 consecutive failures, last: rate_limit: 429",
	}

	help := linear(session.HelpIsNeeded, done, done, session.HelpIsNeeded, open, open)
	failing := &help.Phases[2].Assignments[0]
	failing.Round, failing.Attempt = 3, 2
	failing.Failures = []session.AttemptFailure{{
		Category: failures.TestFailure,
		Message:  "TestLogin fails: want 200, got 404, because the route is missing in the handler",
	}}
	help.Requests = []tui.Request{{
		Title: "implementation/developer needs help: test_failure: TestLogin fails: want 200, got 404, because the route is missing " +
			"in the handler",
		Until: now.Add(50 * time.Hour),
		Commands: []tui.Command{
			{Text: "maestro resolve shortener-20261121-k3j2ab retry", Does: "tries again; --note TEXT gives it a hint"},
			{Text: "maestro resolve shortener-20261121-k3j2ab skip", Does: "continues without this work"},
			{Text: "maestro resolve shortener-20261121-k3j2ab supply PATH", Does: "uses your files, checked like an agent's"},
		},
	}}

	approval := linear(session.AwaitingApproval, done, session.AwaitingApproval, open, open, open)
	approval.Requests = []tui.Request{{
		Title:    "design needs approval: phase design is done and waits for approval",
		Commands: []tui.Command{{Text: "maestro approve shortener-20261121-k3j2ab design", Does: "starts the dependent phases"}},
	}}

	finished := linear(done, done, done, done, done, done)
	finished.Closed = now.Add(-10 * time.Second)

	failed := linear(session.Failed, session.Restored, done, session.Failed, open, open)
	failed.Closed = now
	failed.Requests = []tui.Request{{
		Title:    "implementation/developer gave up: syntax: undefined: Store",
		Commands: []tui.Command{{Text: "maestro resume shortener-20261121-k3j2ab", Does: "resumes with the finished work restored"}},
	}}

	sealing := working()
	for i := range sealing.Phases[1].Assignments {
		sealing.Phases[1].Assignments[i].State = done
	}

	idle := working()
	idle.Notes = []string{"no worker has agent coder: queue maestro-abc-agent-coder has no poller; start a worker whose file " +
		"defines it"}

	return map[string]tui.Picture{
		"running":  {Session: working(), Selected: spec.AssignmentID{Phase: "implementation", Persona: "backend"}},
		"breaker":  {Session: breaker, Selected: spec.AssignmentID{Phase: "design", Persona: "architect"}},
		"help":     {Session: help, Selected: spec.AssignmentID{Phase: "implementation", Persona: "developer"}},
		"approval": {Session: approval, Selected: spec.AssignmentID{Phase: "design", Persona: "architect"}},
		"finished": {Session: finished},
		"failed":   {Session: failed, Selected: spec.AssignmentID{Phase: "implementation", Persona: "developer"}},
		"lost": {
			Session: idle, Selected: spec.AssignmentID{Phase: "implementation", Persona: "frontend"},
			Trouble: "lost the connection to Temporal at 127.0.0.1:7233; retrying (the session is not affected)",
		},
		"sealing": {Session: sealing, Selected: spec.AssignmentID{Phase: "manual", Persona: "writer"}},
		"nothing": {Session: tui.Session{ID: "solo-1", Team: "solo", State: session.Admitted, Started: now}},
	}
}

var sizes = [][2]int{{80, 24}, {200, 50}, {40, 24}, {80, 12}}

// Every screen is as it was when somebody looked at it and found it good; -args
// -update writes them anew, to be looked at.
func TestPicturesLookAsTheyDid(t *testing.T) {
	t.Parallel()
	for name, p := range situations() {
		for _, size := range sizes {
			p.Width, p.Height, p.Now, p.Footer = size[0], size[1], now, "? help  q quit"
			compare(t, fmt.Sprintf("%s-%dx%d", name, size[0], size[1]), p.Lines())
		}
	}
	p := situations()["running"]
	p.Width, p.Height, p.Now, p.Colours = 80, 24, now, true
	compare(t, "running-colours", p.Lines())
	p.Height, p.Colours = 0, false
	compare(t, "running-final", p.Lines())
}

func compare(t *testing.T, name string, lines []string) {
	t.Helper()
	golden.Compare(t, filepath.Join("testdata", name+".txt"), strings.Join(lines, "\n")+"\n")
}

// Whatever the terminal's size, no line is wider than it and there are no more lines
// than it has, and no control character of an agent's reaches it.
func TestPicturesFit(t *testing.T) {
	t.Parallel()
	for name, p := range situations() {
		for width := 20; width <= 210; width += 3 {
			for _, height := range []int{5, 8, 12, 16, 24, 50} {
				p.Width, p.Height, p.Now, p.Footer, p.Colours = width, height, now, "? help", width%2 == 0
				lines := p.Lines()
				require.LessOrEqual(t, len(lines), height, "%s at %dx%d", name, width, height)
				for _, line := range lines {
					require.LessOrEqual(t, lipgloss.Width(line), width, "%s at %dx%d: %q", name, width, height, line)
					require.NotContains(t, line, "\x07")
				}
			}
		}
	}
}

// Colours only add to what a picture says without them.
func TestColoursSayNothingOfTheirOwn(t *testing.T) {
	t.Parallel()
	for name, p := range situations() {
		p.Width, p.Height, p.Now = 80, 24, now
		without := p.Lines()
		p.Colours = true
		with := p.Lines()
		require.NotContains(t, strings.Join(without, ""), "\x1b", name)
		require.Contains(t, strings.Join(with, ""), "\x1b", name)
		require.Equal(t, strings.Join(without, "\n"), ansi.Strip(strings.Join(with, "\n")), name)
	}
}

// The selected assignment stays in sight on a terminal that is too short for all.
func TestTheSelectedStaysInSight(t *testing.T) {
	t.Parallel()
	p := situations()["running"]
	p.Width, p.Height, p.Now = 80, 9, now
	for _, phase := range p.Session.Phases {
		for _, a := range phase.Assignments {
			p.Selected = spec.AssignmentID{Phase: phase.Name, Persona: a.Persona}
			require.Contains(t, strings.Join(p.Lines(), "\n"), "▸ ", p.Selected)
		}
	}
}

// A command to type is there as a whole, on however many lines.
func TestCommandsAreWhole(t *testing.T) {
	t.Parallel()
	for _, width := range []int{40, 60, 80, 200} {
		p := situations()["help"]
		p.Width, p.Now = width, now
		text := strings.Join(strings.Fields(strings.Join(p.Lines(), " ")), " ")
		require.Contains(t, text, "maestro resolve shortener-20261121-k3j2ab retry", width)
	}
}
