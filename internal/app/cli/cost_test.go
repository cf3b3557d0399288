package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

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

	b.prints(`{"by": ["phase", "persona"], "rows": [{"phase": "plan", "reserved": {"tokens": 505}},
		{"phase": "build", "unsettled": {"usd": 2.5}}], "total": {"tokens": 5531},
		"budgets": [{"left": {"tokens": 3887}}, {"scope": "persona bob", "left": {"usd": 0}}]}`, "usage", "s")
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

	b.prints(`{"open": [{"call": "`+first+`"}, {"state": "unsettled"}, {"state": "begun"}]}`, "budget", "show", "s")
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

// helpVerbs are what requests for help take.
var helpVerbs = []session.Action{session.AnswerRetry, session.AnswerSkip, session.AnswerSupply, session.AnswerAbort}

// asks has a session of the bank wait for a person.
func (b *bank) asks(sessionID string, state session.State, open ...session.Request) {
	b.t.Helper()
	b.session(sessionID, "crew", time.Hour, tokensOf(1200, 34, 500_000_000))
	statetest.Put(b.t, b.store.State, key(sessionID), func(e *session.Execution) {
		e.ClosedAt, e.Status.Status, e.Help = nil, state, open
	})
}

func TestStatusWithoutTemporal(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	b.session("web-001", "crew", time.Hour, tokensOf(1, 2, 250_000_000))
	got := b.ends(0, "showing what the store in ", "status", "web-001")
	require.Contains(t, got.stdout.String(), "web-001  completed  team crew")
	require.Contains(t, got.stdout.String(), "bob")
	require.Contains(t, got.stdout.String(), "\n3 tokens, 0.25 USD, ", "what its calls have cost")
	require.Contains(t, b.must(0, "list"), " 3       0.25 ")
	unknown := b.ends(2, `session "web-002" not found`, "status", "web-002")
	require.Contains(t, unknown.stderr.String(), `did you mean "web-001"?`)
}

func TestInboxListsWhatWaitsLongestFirst(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	empty := b.ends(0, "cannot reach Temporal", "inbox")
	require.Contains(t, empty.stderr.String(), "no open requests")
	require.Empty(t, empty.stdout.String())

	now := time.Now()
	b.session("done", "crew", time.Hour, cost.Usage{})
	b.asks("judged", session.Running, session.Request{
		ID: "plan.approval.1", Kind: session.ForApproval, Phase: "plan", Message: "phase plan is done",
		Since:   now.Add(-65 * time.Minute),
		Actions: []session.Action{session.AnswerApprove, session.AnswerReject},
	})
	b.asks("stuck", session.HelpIsNeeded, session.Request{
		ID: "build.bob.1", Kind: session.ForHelp, Phase: "build", Persona: "bob", Category: failures.TestFailure,
		Message: "TestX fails", Since: now.Add(-26*time.Hour - time.Minute),
		Actions: helpVerbs, Ticket: &session.Ticket{Key: "MD-7", URL: "https://jira.example/browse/MD-7", Occurrences: 2},
	})
	b.asks("broke", session.HelpIsNeeded, session.Request{
		ID: "build.bob.1", Kind: session.ForBudget, Phase: "build", Persona: "bob", Category: failures.TokenBudget,
		Message: "it is spent", Since: now.Add(-3*time.Hour - time.Minute),
		Raise: &session.BudgetRaise{Scope: session.BudgetOfSession, Tokens: true}, Actions: helpVerbs,
		Ticket: &session.Ticket{Trouble: "Jira says 401"},
	})
	b.asks("away", session.Running, session.Request{
		ID: "build.bob.1", Kind: session.ForOutage, Phase: "build", Persona: "bob", Category: failures.RateLimited,
		Message: "slow down", Since: now.Add(-49*time.Hour - time.Minute),
		Command: "maestro resolve away retry", Actions: helpVerbs,
	})
	require.Equal(t, `SESSION  TEAM  NEEDS     OF         WAITS  TOKENS  USD  TICKET   WHY
stuck    crew  help      build/bob  1d 2h  1,234   0.5  MD-7     test_failure: TestX fails
broke    crew  budget    build/bob  3h 1m  1,234   0.5  not yet  token_budget: it is spent
judged   crew  approval  plan       1h 5m  1,234   0.5  -        phase plan is done
away     crew  outage    build/bob  2d 1h  1,234   0.5  -        rate_limited: slow down

answer with (--note TEXT adds a note):
  maestro resolve stuck retry
  maestro budget raise broke --tokens N
  maestro approve judged plan

these continue without an answer:
  maestro status away
`, b.must(0, "inbox"))

	b.prints(`{"waiting": [{"id": "build.bob.1", "ticket": {"key": "MD-7"}, "actions": ["retry", "skip", "supply", "abort"],
		"usage": {"input_tokens": 1200, "output_tokens": 34}}, {}, {"commands": ["maestro approve judged plan",
		"maestro reject judged plan --note TEXT", "maestro artifacts diff judged plan"]}, {}]}`, "inbox")
}

func TestStatusSaysWhatCanBeTyped(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	b.asks("s", session.HelpIsNeeded, session.Request{
		ID: "build.bob.2", Kind: session.ForHelp, Phase: "build", Persona: "bob", Category: failures.ContractViolation,
		Message: "the input of phase build has a merge conflict: a.txt", Since: time.Now().Add(-123 * time.Minute),
		SkipEffect: "keeps the version of build/dev and drops that of plan/dev (a.txt)",
		Actions:    []session.Action{session.AnswerSkip, session.AnswerAbort},
	}, session.Request{
		ID: "plan.ann.1", Kind: session.ForBudget, Phase: "plan", Persona: "ann", Category: failures.TokenBudget,
		Message: "it is spent",
		Raise:   &session.BudgetRaise{Scope: session.BudgetOfPersona, Name: "ann", USD: true}, Actions: helpVerbs, Since: time.Now(),
	})
	shown := b.must(0, "status", "s")
	require.Regexp(t, `(?m)^build/bob needs help: contract_violation: the input of phase build has a merge conflict: a.txt
  request build.bob.2 waiting since .* \(2h 3m\)
  answer with:
    maestro resolve s skip --request build.bob.2
      keeps the version of build/dev and drops that of plan/dev \(a.txt\)
    maestro resolve s abort --request build.bob.2
      ends the session$`, shown)
	require.Contains(t, shown, `  answer with:
    maestro budget raise s --persona ann --usd N
      continues where it stopped
    maestro resolve s retry --for plan/ann
      tries again with the remaining budget; --note TEXT gives it a hint
`)
	statetest.Put(t, b.store.State, key("s"), func(e *session.Execution) {
		e.ClosedAt, e.Status.Status, e.Reason = e.StartedAt, session.Failed, "build/bob needed somebody (aborted by ann)"
	})
	shown = b.must(0, "status", "s")
	require.Regexp(t, `(?m)^build/bob needed somebody \(aborted by ann\)\n  request build.bob.2 asked `, shown)
	require.NotRegexp(t, "answer with:|maestro resolve|maestro budget|waiting since|until", shown,
		"nobody answers a session that has ended")
}

func TestSessionsThatTemporalHasLostWaitToBeResumed(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	b.set("TEMPORAL_ADDRESS", temporaltest.Start(t)) // which has never heard of the session
	b.asks("lost", session.HelpIsNeeded,
		session.Request{
			ID: "build.bob.1", Kind: session.ForHelp, Phase: "build", Persona: "bob", Message: "TestX fails",
			Actions: helpVerbs,
		},
		session.Request{
			ID: "build.eve.1", Kind: session.ForHelp, Phase: "build", Persona: "eve", Message: "TestY fails",
			Actions: helpVerbs,
		})
	b.prints(`{"waiting": [{"commands": ["maestro resume lost"]}, {}]}`, "inbox") // no answer reaches it before
	require.Equal(t, 1, strings.Count(b.must(0, "inbox"), "maestro resume lost"), "once for all of its requests")

	answer := b.ends(2, "Temporal has lost session lost", "resolve", "lost", "retry", "--for", "build/bob")
	require.Contains(t, answer.stderr.String(), "maestro resume lost")
	require.Contains(t, b.run("resolve", "never", "retry").stderr.String(), `session "never" not found`)
}
