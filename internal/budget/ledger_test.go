package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/team"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func tokens(n int64) team.Amount { return team.Amount{Tokens: n} }

func TestReserveGrantsWaitsAndRefuses(t *testing.T) {
	t.Parallel()
	a, b := team.AssignmentID{Phase: "code", Persona: "a"}, team.AssignmentID{Phase: "code", Persona: "b"}
	l := &Ledger{Limits: Limits{Session: team.Cap{Tokens: 1000}, Personas: map[string]team.Cap{"b": {Tokens: 300}}}}

	require.Equal(t, Verdict{Granted: tokens(700)}, l.Reserve(a, 1, tokens(700), tokens(100), noon))
	require.Equal(t, Verdict{Scope: "persona b", Refused: "the budget of persona b is spent: 300 of 300 tokens are left, and the next call needs 301"},
		l.Reserve(b, 1, tokens(400), tokens(301), noon), "no waiting can free what its own budget never had")
	require.Equal(t, Verdict{Granted: tokens(300)}, l.Reserve(b, 1, tokens(300), tokens(100), noon))
	require.Equal(t, tokens(1000), l.Reserved())
	require.Equal(t, Verdict{Wait: true, Scope: "session"}, l.Reserve(a, 2, tokens(1), tokens(1), noon), "b's call may cost less")

	l.SetRow(b, Row{}, noon)
	l.SetRow(a, Row{Spent: []Spending{{Date: "2026-01-31", Agent: "m", Usage: team.Usage{InputTokens: 900}}}}, noon)
	require.Equal(t, Verdict{Granted: tokens(100)}, l.Reserve(a, 3, tokens(500), tokens(50), noon), "an answer is cut to what is left")
}
