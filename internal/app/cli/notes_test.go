package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// A note tells why a breaker was opened: in the words of a person or a provider.
func TestNotesAreOnlySeen(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := newApp(Env{Stdout: &out, Stderr: &out, Now: func() time.Time { return time.Unix(0, 0) }})
	v := sessionstatus.Session{Status: session.Status{Session: "s"}, Notes: []string{"it moves\x1b[2J"}}
	for _, summary := range []string{"done", "done (left out: b\x1b[2J)"} {
		v.Phases = append(v.Phases, session.PhaseStatus{Name: "build", Assignments: []session.AssignmentStatus{{
			Persona: "dev", AssignmentSummary: session.AssignmentSummary{Summary: summary, LeftOut: []string{"left out: b\x1b[2J"}},
		}}})
	}
	a.writeStatus(v)
	require.Equal(t, 1, strings.Count(out.String(), "\nthe result of build/dev: left out: b"), out.String())
	require.Contains(t, out.String(), "it moves")
	require.NotContains(t, out.String(), "\x1b")
	out.Reset()
	newLineObserver(a.console, (&plane{base: &control.Base{Temporal: control.Connected(nil), Now: a.env.Now}}).lookout("s", a.env.Now)).update(t.Context(), v)
	require.Contains(t, out.String(), "it moves")
	require.NotContains(t, out.String(), "\x1b")
}

// A phase that is merged is at work, although all its assignments are done. A line says so, and
// another one after a while in which nothing has changed.
func TestLinesOfAMergeAndOfAQuietTime(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := time.Unix(0, 0)
	a := newApp(Env{Stdout: &out, Stderr: &out, Now: func() time.Time { return now }})
	lines := newLineObserver(a.console, (&plane{base: &control.Base{Temporal: control.Connected(nil), Now: a.env.Now}}).lookout("s", a.env.Now))
	look := func(states ...session.State) string {
		out.Reset()
		p := session.PhaseStatus{Name: "build", Status: session.Running}
		for i, state := range states {
			p.Assignments = append(p.Assignments, session.AssignmentStatus{
				Persona: []string{"backend", "frontend"}[i], AssignmentSummary: session.AssignmentSummary{Status: state},
			})
		}
		lines.update(t.Context(), sessionstatus.Session{Status: session.Status{Session: "s", Phases: []session.PhaseStatus{p}}})
		return out.String()
	}
	require.NotContains(t, look(session.Completed, session.Running), "merging")
	require.Empty(t, look(session.Completed, session.Running))
	now = now.Add(stillRunningAfter)
	require.Contains(t, look(session.Completed, session.Running), "  still running: build/frontend\n")
	require.Contains(t, look(session.Completed, session.Completed), "  build: merging and checking its work\n")
	require.Empty(t, look(session.Completed, session.Completed))
	now = now.Add(stillRunningAfter)
	require.Contains(t, look(session.Completed, session.Completed), "  still running: build (merging and checking its work)\n")
}

func TestWarningsAreNotes(t *testing.T) {
	t.Parallel()
	when := time.Unix(1500, 0)
	v := sessionstatus.Session{Notes: []string{"a note"}, Warnings: []budget.Warning{
		{Scope: "session", At: 0.8, Spent: cost.Amount{Tokens: 85}, Cap: spec.Cap{Tokens: 100}, When: when},
	}}
	require.Equal(t, []string{
		"a note", "the budget of the session reached 80% at " + terminal.Moment(&when) + ": 85 tokens of 100 tokens",
	}, notesOf(v))
	require.Equal(t, []string{"a note"}, v.Notes)
}
