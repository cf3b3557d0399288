package statetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

func answersAreFound(t *testing.T, b *bench) {
	b.admit(t, "s", "r")
	n := b.begin(t, b.call(dev("s"), 1, 10))
	other := n.AttemptKey
	other.Attempt = 2
	find := func(request string, attempts ...state.AttemptKey) error {
		c, err := b.PaidAnswer(t.Context(), attempts, 1, request, nil)
		if err == nil {
			require.Equal(t, n.ID, c.ID)
			require.Equal(t, "answer", c.Answer)
		}
		return err
	}
	require.ErrorIs(t, find(n.Request, n.AttemptKey), state.ErrNotFound, "it is in progress")
	require.NoError(t, b.End(t.Context(), n.ID, answered(5)))
	require.NoError(t, find(n.Request, n.AttemptKey))
	require.NoError(t, find(n.Request, other, n.AttemptKey), "an attempt that continues another's conversation")
	require.ErrorIs(t, find(n.Request, other), state.ErrNotFound, "one that pays anew")
	require.ErrorIs(t, find("another", n.AttemptKey), state.ErrNotFound)
	later := n.AttemptKey
	later.Pass, later.Round, later.Attempt = 3, 2, 2
	require.NoError(t, find(n.Request, later), "a later pass, whose answers are from the first one on")
	_, err := b.PaidAnswer(t.Context(), []state.AttemptKey{later}, 2, n.Request, nil)
	require.ErrorIs(t, err, state.ErrNotFound, "a pass that pays anew")
	failed := b.begin(t, b.call(dev("s"), 1, 10))
	require.NoError(t, b.End(t.Context(), failed.ID, state.CallEnd{State: state.CallFailed, Answer: "half of it"}))
	require.ErrorIs(t, find(failed.Request, n.AttemptKey), state.ErrNotFound)
	require.NoError(t, b.KeepTools(t.Context(), n.ID, "tools"))
	calls, err := b.Calls(t.Context(), dev("s"))
	require.NoError(t, err)
	require.Len(t, calls, 2)
	require.Equal(t, "tools", calls[0].Tools)
	require.Equal(t, [2]int64{1, 2}, [2]int64{calls[0].Call, calls[1].Call})
}

func answersAreReceivedOnce(t *testing.T, b *bench) {
	b.admit(t, "s", "r")
	first := b.begin(t, b.call(dev("s"), 1, 10))
	b.clock.Pass(time.Second)
	second := b.call(dev("s"), 1, 10)
	second.Request = first.Request
	b.begin(t, second)
	for _, n := range []state.NewCall{second, first} {
		require.NoError(t, b.End(t.Context(), n.ID, answered(5)))
	}
	received := map[string]bool{}
	for _, n := range []state.NewCall{first, second} {
		c, err := b.PaidAnswer(t.Context(), []state.AttemptKey{n.AttemptKey}, 1, n.Request, received)
		require.NoError(t, err)
		require.Equal(t, n.ID, c.ID, "the oldest first")
		received[c.ID] = true
	}
	_, err := b.PaidAnswer(t.Context(), []state.AttemptKey{first.AttemptKey}, 1, first.Request, received)
	require.ErrorIs(t, err, state.ErrNotFound, "a third equal request pays")
}

// costsKeepTheKindsOfTokens in the sums over calls.
func costsKeepTheKindsOfTokens(t *testing.T, b *bench) {
	b.admit(t, "s", "r")
	used := cost.Usage{
		InputTokens: 1, OutputTokens: 2, CacheReadTokens: 3, CacheWriteTokens: 4, ReasoningTokens: 1, CacheWrite1hTokens: 2,
		WebSearches: 7, CostUSD: 8,
	}
	n := b.begin(t, b.call(dev("s"), 1, 40))
	require.NoError(t, b.End(t.Context(), n.ID, state.CallEnd{State: state.CallAnswered, Answer: "a", Usage: used}))
	for _, by := range []string{"phase", "day"} {
		sums, err := b.Usage(t.Context(), []string{by}, "", state.Filter{Namespace: sessionOf("s").Namespace})
		require.NoError(t, err)
		require.Len(t, sums, 1)
		require.Equal(t, state.Spending{Calls: 1, Usage: used, Tokens: used.Tokens()}, sums[0].Spending, by)
	}
}

// costsAddUp compares the sums by every key with each other, and with the budget.
func costsAddUp(t *testing.T, b *bench) {
	b.admit(t, "s", "r", capOf(session.BudgetOfSession, "", 1000), capOf(session.BudgetOfDay, team, 1000))
	for i, end := range []state.CallEnd{
		answered(5),
		{State: state.CallFailed, Usage: cost.Usage{InputTokens: 3}},
		{State: state.CallUnsettled, Usage: cost.Usage{InputTokens: 1}},
		{State: state.CallFailed},
	} {
		n := b.begin(t, b.call([]state.Assignment{dev("s"), lead("s")}[i%2], 1, 40))
		require.NoError(t, b.End(t.Context(), n.ID, end))
	}
	b.begin(t, b.call(dev("s"), 1, 40))
	for _, key := range []string{"phase", "persona", "agent", "model", "day"} {
		costs, err := b.Costs(t.Context(), sessionOf("s"), key)
		require.NoError(t, err)
		require.Equal(t, state.Spending{
			Calls: 3, Usage: cost.Usage{InputTokens: 4, OutputTokens: 5, CostUSD: 5}, Tokens: 9,
			Unsettled: state.OpenCalls{Calls: 1, Amount: tokens(20)}, Reserved: state.OpenCalls{Calls: 1, Amount: tokens(40)},
		}, state.Sum(costs, spec.AssignmentID{}).Spending, key)
	}
	day, err := b.Day(t.Context(), team)
	require.NoError(t, err)
	require.Equal(t, b.budget(t, dev("s"), session.BudgetOfSession).Held(), day.Held())
	require.Len(t, day.Sessions, 1)
	require.Equal(t, state.DaySession{
		Key: sessionOf("s"), Spent: day.Spent, Estimated: day.Unsettled, Reserved: day.Reserved,
		Unsettled: 1,
	}, day.Sessions[0])
}

// unstatedCostsAreGuessed: the first attempt of an agent gets all that is left, later ones the highest cost so far.
func unstatedCostsAreGuessed(t *testing.T, b *bench) {
	b.admit(t, "s", "r", capOf(session.BudgetOfSession, "", 100))
	n := b.call(dev("s"), 1, 0)
	n.Call = 0
	require.EqualValues(t, 100, b.verdict(t, n).Granted.Tokens)
	require.NoError(t, b.End(t.Context(), n.ID, answered(30)))
	next := b.call(dev("s"), 1, 0)
	next.Call = 0
	require.EqualValues(t, 30, b.verdict(t, next).Granted.Tokens)
	require.NoError(t, b.End(t.Context(), next.ID, state.CallEnd{State: state.CallUnsettled}))
	require.EqualValues(t, 30, b.budget(t, dev("s"), session.BudgetOfSession).Unsettled.Tokens, "its estimate is the guess")
	last := b.call(dev("s"), 1, 0)
	last.Call = 0
	last.Free = true
	require.Zero(t, b.verdict(t, last).Granted)
}

// thresholdsWarnOnce warns of each fraction once, and again if it was not true in the meantime.
func thresholdsWarnOnce(t *testing.T, b *bench) {
	b.admit(t, "s", "r", capOf(session.BudgetOfSession, "", 100))
	warn := func() (at []float64) {
		t.Helper()
		due, _, err := b.Warn(t.Context(), dev("s"), team, []float64{0.5, 0.9})
		require.NoError(t, err)
		for _, w := range due {
			at = append(at, w.At)
		}
		return at
	}
	spend := func(n int64) {
		t.Helper()
		c := b.begin(t, b.call(dev("s"), 1, n))
		require.NoError(t, b.End(t.Context(), c.ID, answered(n)))
	}
	require.Empty(t, warn())
	spend(60)
	require.Equal(t, []float64{0.5}, warn())
	require.Empty(t, warn())
	_, err := b.AddRaise(t.Context(), sessionOf("s"), budget.Raise{ID: "1", Scope: budget.SessionScope, Added: tokens(100)}, "cli")
	require.NoError(t, err)
	require.Empty(t, b.budget(t, dev("s"), session.BudgetOfSession).Warnings, "not true any more")
	spend(130)
	require.Equal(t, []float64{0.5, 0.9}, warn())
	require.Len(t, b.budget(t, dev("s"), session.BudgetOfSession).Warnings, 2)
}
