package cli_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

// costs is the document of `usage -o json`.
type costs struct {
	Session, Since string
	By             []string
	Rows           []state.Cost
	Total          state.Spending
	Budgets        []struct {
		Scope string
		Cap   spec.Cap
		Spent cost.Amount
		Left  map[string]float64
	}
}

// bank is a store in which sessions have paid for calls.
type bank struct {
	*desk
	store *store.Store
	clock *statetest.Clock
	// teams are those of the sessions.
	teams map[string]string
}

func newBank(t *testing.T) *bank {
	t.Helper()
	d := newDesk(t)
	clock := &statetest.Clock{}
	clock.Set(time.Now())
	s, err := store.Create(d.state, store.Options{Clock: clock.Now})
	require.NoError(t, err)
	return &bank{d, s, clock, map[string]string{}}
}

func key(sessionID string) session.Key {
	return session.Key{Namespace: "default", Session: sessionID}
}

// session makes a session of team that started so long ago, of the phases plan
// and build with a persona each, the first of which has paid for a call.
func (b *bank) session(name, of string, ago time.Duration, used cost.Usage) {
	b.t.Helper()
	started := time.Now().Add(-ago)
	b.teams[name] = of
	statetest.Put(b.t, b.store.State, key(name), func(e *session.Execution) {
		e.Team, e.StartedAt, e.ClosedAt, e.Status.Status = of, &started, &started, session.Completed
		e.Phases = []session.PhaseStatus{
			{Name: "plan", Status: session.Completed, Assignments: []session.AssignmentStatus{{
				Persona:           "ann",
				AssignmentSummary: session.AssignmentSummary{Status: session.Completed},
			}}},
			{Name: "build", Status: session.Completed, Assignments: []session.AssignmentStatus{{
				Persona:           "bob",
				AssignmentSummary: session.AssignmentSummary{Status: session.Completed},
			}}},
		}
	})
	if used != (cost.Usage{}) {
		b.pay(name, planned, "writer", ago, state.CallAnswered, used)
	}
}

// pay books a call that began so long ago, and returns its id.
func (b *bank) pay(sessionID string, id spec.AssignmentID, agent string, ago time.Duration, end state.CallState,
	used cost.Usage,
) string {
	b.t.Helper()
	b.clock.Set(time.Now().Add(-ago))
	defer b.clock.Set(time.Now())
	return statetest.Book(b.t, b.store.State, statetest.Booking{
		Assignment: state.Assignment{Key: key(sessionID), AssignmentID: id}, Team: b.teams[sessionID], Agent: agent, Model: agent +
			"-1", End: end, Cost: used,
	})
}

var (
	planned = spec.AssignmentID{Phase: "plan", Persona: "ann"}
	built   = spec.AssignmentID{Phase: "build", Persona: "bob"}
)

const day = 24 * time.Hour

func tokensOf(input, output int64, usd cost.USD) cost.Usage {
	return cost.Usage{InputTokens: input, OutputTokens: output, CostUSD: usd}
}

func TestWhatASessionCost(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	b.session("s", "crew", time.Hour, cost.Usage{})
	b.pay("s", built, "coder", time.Hour, state.CallAnswered, cost.Usage{
		InputTokens: 1, OutputTokens: 20, CacheReadTokens: 300,
		CacheWriteTokens: 4000, ReasoningTokens: 5, CostUSD: 1,
	})
	b.pay("s", built, "cheap", 3*day, state.CallFailed, tokensOf(10, 0, 0))
	b.pay("s", built, "coder", time.Hour, state.CallUnsettled, tokensOf(7, 70, 2_500_000_000))
	b.pay("s", planned, "writer", 9*day, state.CallAnswered, tokensOf(1000, 200, 100_000_000))
	b.pay("s", planned, "writer", time.Minute, state.CallBegun, tokensOf(500, 5, 0))
	statetest.Admit(t, b.store.State, key("s"), "crew", statetest.Limit(session.BudgetOfSession, "", spec.Cap{Tokens: 10_000}),
		statetest.Limit(session.BudgetOfPersona, "bob", spec.Cap{USD: 2_500_000_001}))

	var doc costs
	b.json(&doc, "usage", "s")
	require.Equal(t, []string{"phase", "persona"}, doc.By)
	require.Len(t, doc.Rows, 2)
	require.Equal(t, "plan", doc.Rows[0].Phase, "phases come in the team's order")
	require.EqualValues(t, 505, doc.Rows[0].Reserved.Tokens)
	require.Equal(t, cost.USD(2_500_000_000), doc.Rows[1].Unsettled.USD)
	require.EqualValues(t, 5531, doc.Total.Tokens, "what is unsettled or reserved is in no other figure")
	require.Equal(t, "persona bob", doc.Budgets[1].Scope)
	require.Equal(t, map[string]float64{"usd": 0}, doc.Budgets[1].Left)
	require.Equal(t, map[string]float64{"tokens": 10_000 - 5531 - 77 - 505}, doc.Budgets[0].Left)

	table := b.must(0, "usage", "s")
	require.Contains(t, table, "PHASE  PERSONA  CALLS  INPUT  OUTPUT  CACHE READ  CACHE WRITE  REASONING  TOKENS  USD")
	require.Contains(t, table, "1 call: about 77 tokens, 2.5 USD")
	require.Contains(t, table, "session      10,000 tokens")
	require.Contains(t, table, "1 call with unknown cost; see `maestro budget show s`")
}

func TestAPersonSettlesACall(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	b.session("s", "crew", time.Hour, cost.Usage{})
	b.pay("s", planned, "writer", time.Hour, state.CallAnswered, tokensOf(1, 0, 0))
	first := b.pay("s", planned, "writer", time.Hour, state.CallUnsettled, tokensOf(100, 0, 1_000_000_000))
	second := b.pay("s", planned, "writer", time.Hour, state.CallUnsettled, tokensOf(50, 0, 0))
	dead := b.pay("s", planned, "writer", time.Hour, state.CallBegun, tokensOf(25, 0, 0))
	settle := func(call string, args ...string) *command {
		return b.run(append([]string{"budget", "settle", "s", call}, args...)...)
	}

	var shown struct {
		Open []struct {
			Phase, Persona, State, Agent, Call string
		}
	}
	b.json(&shown, "budget", "show", "s")
	require.Len(t, shown.Open, 3)
	require.Equal(t, first, shown.Open[0].Call)
	require.Contains(t, b.must(0, "budget", "show", "s"), "session s has no budget")

	got := settle(first, "--output-tokens", "5")
	require.Equal(t, 2, got.code)
	require.Contains(t, got.stderr.String(), "--cost-usd: call "+first+" may have cost money (estimated: 1 USD)")
	got = settle(first, "--input-tokens", "90", "--output-tokens", "5", "--cost-usd", "0.75", "--note", "by the bill", "-o", "json")
	require.Zero(t, got.code, got.stderr.String())
	require.Contains(t, got.stdout.String(), `"unsettled": 1`)
	require.Contains(t, settle(second, "--write-off").stdout.String(), "counts as nothing; it was estimated at 50 tokens")
	require.Zero(t, settle(dead, "--output-tokens", "3").code, "its worker is dead")
	account, err := b.store.State.Account(t.Context(), key("s"))
	require.NoError(t, err)
	require.Equal(t, tokensOf(91, 8, 750_000_000), account.Usage())
	logged := b.must(0, "audit", "--session", "s")
	require.Contains(t, logged, "budget.settle")
	require.Contains(t, logged, "95 tokens, 0.75 USD. by the bill")
}
