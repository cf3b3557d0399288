package budget

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func tokens(n int64) cost.Amount { return cost.Amount{Tokens: n} }

func TestReserveGrantsWaitsAndRefuses(t *testing.T) {
	t.Parallel()
	a, b := spec.AssignmentID{Phase: "code", Persona: "a"}, spec.AssignmentID{Phase: "code", Persona: "b"}
	l := &Ledger{Limits: Limits{Session: spec.Cap{Tokens: 1000}, Personas: map[string]spec.Cap{"b": {Tokens: 300}}}}

	require.Equal(t, Verdict{Granted: tokens(700)}, l.Reserve(a, 1, tokens(700), tokens(100)))
	require.Equal(t, Verdict{Scope: "persona b", Least: tokens(301), Refused: "the budget of persona b is not sufficient: 300 of 300 tokens left, and the next call needs 301"},
		l.Reserve(b, 1, tokens(400), tokens(301)), "no waiting can free what its own budget never had")
	require.Equal(t, Verdict{Granted: tokens(300)}, l.Reserve(b, 1, tokens(300), tokens(100)))
	require.Equal(t, tokens(1000), l.Reserved())
	require.Equal(t, Verdict{Wait: true, Scope: "session"}, l.Reserve(a, 2, tokens(1), tokens(1)), "b's call may cost less")

	l.SetRow(b, Row{}, noon)
	l.SetRow(a, Row{Spent: []Spending{{Date: "2026-01-31", Agent: "m", Usage: cost.Usage{InputTokens: 900}}}}, noon)
	require.Equal(t, Verdict{Granted: tokens(100)}, l.Reserve(a, 3, tokens(500), tokens(50)), "an answer is cut to what is left")
}

func TestACallWaitsOnlyForWhatReservationsMayFree(t *testing.T) {
	t.Parallel()
	a, b := spec.AssignmentID{Phase: "code", Persona: "a"}, spec.AssignmentID{Phase: "code", Persona: "b"}
	with := func(limit spec.Cap, reserved cost.Amount) *Ledger {
		l := &Ledger{Limits: Limits{Session: limit}}
		require.Equal(t, reserved, l.Reserve(a, 1, reserved, reserved).Granted)
		return l
	}
	never := with(spec.Cap{Tokens: 100}, tokens(5)).Reserve(b, 1, tokens(300), tokens(200))
	require.Equal(t, "the budget of the session is not sufficient: 100 of 100 tokens left, and the next call needs 200", never.Refused,
		"no end of a call can ever free enough")
	require.True(t, with(spec.Cap{Tokens: 100}, tokens(5)).Reserve(b, 1, tokens(100), tokens(97)).Wait)

	both := spec.Cap{Tokens: 100, USD: 100}
	other := with(both, tokens(5)).Reserve(b, 1, cost.Amount{Tokens: 1, USD: 300}, cost.Amount{Tokens: 1, USD: 50})
	require.Equal(t, cost.Amount{Tokens: 1, USD: 100}, other.Granted, "money is short, and nobody has any set aside")

	l := &Ledger{Limits: Limits{Session: spec.Cap{Tokens: 100}, Personas: map[string]spec.Cap{"b": {Tokens: 100}}}}
	l.SetRow(a, Row{Spent: []Spending{{Date: "2026-01-31", Usage: cost.Usage{InputTokens: 70}}}}, noon)
	require.Empty(t, l.Reserve(b, 1, tokens(30), tokens(30)).Refused)
	require.Equal(t, SessionScope, l.Reserve(b, 2, tokens(90), tokens(40)).Scope)
	require.False(t, l.Reserve(b, 2, tokens(90), tokens(40)).Wait, "one budget may wait, another can never pay")
}

func TestBudgetsAreReported(t *testing.T) {
	t.Parallel()
	a, b := spec.AssignmentID{Phase: "code", Persona: "a"}, spec.AssignmentID{Phase: "test", Persona: "b"}
	l := &Ledger{Limits: Limits{
		Session: spec.Cap{Tokens: 1000}, Phases: map[string]spec.Cap{"test": {USD: 50}, "code": {}}, Personas: map[string]spec.Cap{"a": {Tokens: 10}},
	}}
	l.SetRow(b, Row{
		Spent: []Spending{{Date: "2026-01-31", Agent: "m", Usage: cost.Usage{InputTokens: 100, CostUSD: 20}}}, Unsettled: []UnsettledCall{{Call: 1, Date: "2026-01-31", Estimate: cost.Usage{OutputTokens: 30, CostUSD: 40}}},
	}, noon)
	l.Reserve(b, 2, tokens(7), tokens(7))
	l.Reserve(a, 1, tokens(9), tokens(9))
	l.Raise(Raise{ID: "1", Scope: SessionScope, Added: tokens(500)})
	require.Equal(t, []spec.AssignmentID{a, b}, l.Assignments())
	require.Equal(t, []Budget{
		{
			Scope: "session", Cap: spec.Cap{Tokens: 1500}, Spent: cost.Amount{Tokens: 100, USD: 20}, Unsettled: cost.Amount{Tokens: 30, USD: 40},
			Reserved: tokens(16), Left: cost.Amount{Tokens: 1354, USD: -1},
		},
		{
			Scope: "phase test", Cap: spec.Cap{USD: 50}, Spent: cost.Amount{Tokens: 100, USD: 20}, Unsettled: cost.Amount{Tokens: 30, USD: 40},
			Reserved: tokens(7), Left: cost.Amount{Tokens: -1, USD: 0},
		},
		{Scope: "persona a", Cap: spec.Cap{Tokens: 10}, Reserved: tokens(9), Left: cost.Amount{Tokens: 1, USD: -1}},
	}, l.Budgets())
}

func TestACallOfWhichNobodyKnowsTheCostSpoilsNoSum(t *testing.T) {
	t.Parallel()
	l := &Ledger{Limits: Limits{Session: spec.Cap{Tokens: 1000}}}
	for i := range int64(9) {
		want, least := l.Guess("m")
		v := l.Reserve(spec.AssignmentID{Phase: "p", Persona: "a"}, i+1, want, least)
		if i > 0 {
			require.True(t, v.Wait, "the first one has all that is limited")
			continue
		}
		require.Equal(t, cost.Amount{Tokens: 1000, USD: want.USD}, v.Granted)
	}
	require.Equal(t, tokens(1000), l.Reserved(), "money is not limited")
}

func TestReservationThatIsRepeatedCountsOnce(t *testing.T) {
	t.Parallel()
	l := Ledger{Limits: Limits{Session: spec.Cap{Tokens: 100}}}
	id, want := spec.AssignmentID{Phase: "p", Persona: "a"}, cost.Amount{Tokens: 80}
	for range 2 { // the first answer was lost
		require.Equal(t, want, l.Reserve(id, 1, want, want).Granted)
	}
	require.Equal(t, want, l.Reserved())
}

func TestCallThatCameToNothingSaysNothingOfWhatTheNextOneCosts(t *testing.T) {
	t.Parallel()
	l := Ledger{Limits: Limits{Session: spec.Cap{Tokens: 100}}}
	id := spec.AssignmentID{Phase: "p", Persona: "a"}
	j := &Journal{}
	add := func(e Entry) {
		e.Seq = j.Next()
		require.NoError(t, j.Apply(e))
		l.SetRow(id, j.Row(nil), noon)
	}
	add(Entry{Kind: Begun, Key: &session.CallKey{}, Agent: "x"})
	add(Entry{Kind: Abandoned, Call: 1, Usage: &cost.Usage{}})
	want, least := l.Guess("x")
	require.Equal(t, tokens(100), l.Reserve(id, 3, want, least).Aside(), "nobody knows yet")
	add(Entry{Kind: Settled, Key: &session.CallKey{}, Agent: "x", Usage: &cost.Usage{}})
	want, _ = l.Guess("x")
	require.Zero(t, want, "it costs nothing")
}

// TestModelsOfAnyNameFillNoLedger: a program may ask for as many as it likes.
func TestModelsOfAnyNameFillNoLedger(t *testing.T) {
	t.Parallel()
	var r Row
	const calls = 3 * maxSpending
	for i := range calls {
		r.book(Call{State: Settled, Agent: "x", Model: strconv.Itoa(i), Usage: cost.Usage{OutputTokens: 1}, EndedAt: noon})
	}
	require.Len(t, r.Spent, maxSpending+1)
	require.Equal(t, OtherModels, r.Spent[maxSpending].Model)
	require.Equal(t, calls-maxSpending, r.Spent[maxSpending].Calls)
	require.Equal(t, int64(calls), r.Usage().Tokens())
}

func TestABudgetLimitsHoweverMuchItIsRaised(t *testing.T) {
	t.Parallel()
	l := Ledger{Limits: Limits{Session: spec.Cap{Tokens: 100, USD: 100}}}
	d := Day{Cap: l.Limits.Session}
	for _, id := range []string{"1", "2", "3"} {
		r := Raise{ID: id, Scope: SessionScope, Added: cost.Amount{Tokens: math.MaxInt64, USD: math.MaxInt64}}
		l.Raise(r)
		d.Raise(r)
	}
	limit, _ := l.Budget(SessionScope)
	for _, c := range []spec.Cap{limit, d.Limit()} {
		require.Greater(t, c.Tokens, int64(100))
		require.Greater(t, c.USD, cost.USD(100))
	}
}
