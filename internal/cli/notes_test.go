package cli

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/terminal"
)

// A note tells why a breaker was opened: in the words of a person or a provider.
func TestNotesAreOnlySeen(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := newApp(Env{Stdout: &out, Stderr: &out, Now: func() time.Time { return time.Unix(0, 0) }})
	v := sessionstatus.Session{Status: session.Status{Session: "s"}, Notes: []string{"it moves\x1b[2J"}}
	writeStatus(a.guide, v)
	require.Contains(t, out.String(), "it moves")
	require.NotContains(t, out.String(), "\x1b")
	out.Reset()
	newLineObserver(a.console, &sessionstatus.Watcher{Now: a.env.Now}).update(t.Context(), v)
	require.Contains(t, out.String(), "it moves")
	require.NotContains(t, out.String(), "\x1b")
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
