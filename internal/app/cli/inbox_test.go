package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

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

// inbox is the document of `inbox -o json`.
type inbox struct {
	Waiting []struct {
		Session, Team, Status, Store, ID, Kind, Phase, Persona, Category, Message string

		Actions, Commands []string
		Choices           []session.Choice
		Raise             *session.BudgetRaise
		Since             *time.Time
		Usage             cost.Usage
		Ticket            *session.Ticket
	}
}

func TestStatusWithoutTemporal(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	b.session("web-001", "crew", time.Hour, tokensOf(1, 2, 250_000_000))
	got := b.run("status", "web-001")
	require.Zero(t, got.code, got.stderr.String())
	require.Contains(t, got.stderr.String(), "showing what the store in ")
	require.Contains(t, got.stdout.String(), "web-001  completed  team crew")
	require.Contains(t, got.stdout.String(), "bob")
	require.Contains(t, got.stdout.String(), "\n3 tokens, 0.25 USD, ", "what its calls have cost")
	require.Contains(t, b.must(0, "list"), " 3       0.25 ")
	unknown := b.run("status", "web-002")
	require.NotZero(t, unknown.code)
	require.Contains(t, unknown.stderr.String(), `session "web-002" not found`)
	require.Contains(t, unknown.stderr.String(), `did you mean "web-001"?`)
}

func TestInboxListsWhatWaitsLongestFirst(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	empty := b.run("inbox")
	require.Zero(t, empty.code, empty.stderr.String())
	require.Contains(t, empty.stderr.String(), "cannot reach Temporal")
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

	var doc inbox
	b.json(&doc, "inbox")
	require.Len(t, doc.Waiting, 4)
	require.Equal(t, "build.bob.1", doc.Waiting[0].ID)
	require.Equal(t, "MD-7", doc.Waiting[0].Ticket.Key)
	require.Equal(t, []string{"retry", "skip", "supply", "abort"}, doc.Waiting[0].Actions)
	require.Contains(t, doc.Waiting[0].Commands, "maestro resolve stuck supply PATH")
	require.EqualValues(t, 1234, doc.Waiting[0].Usage.Tokens())
	require.Equal(t, []string{
		"maestro approve judged plan", "maestro reject judged plan --note TEXT",
		"maestro artifacts diff judged plan",
	}, doc.Waiting[2].Commands)
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
	var got inbox
	b.json(&got, "inbox")
	require.Len(t, got.Waiting, 2)
	require.Equal(t, []string{"maestro resume lost"}, got.Waiting[0].Commands, "no answer reaches it before")
	require.Equal(t, 1, strings.Count(b.must(0, "inbox"), "maestro resume lost"), "once for all of its requests")

	answer := b.run("resolve", "lost", "retry", "--for", "build/bob")
	require.Equal(t, 2, answer.code)
	require.Contains(t, answer.stderr.String(), "Temporal has lost session lost")
	require.Contains(t, answer.stderr.String(), "maestro resume lost")
	require.Contains(t, b.run("resolve", "never", "retry").stderr.String(), `session "never" not found`)
}
