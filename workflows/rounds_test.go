package workflows

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/team"
)

// TestWhetherARoundFollows is retry level 2.
func TestWhetherARoundFollows(t *testing.T) {
	t.Parallel()
	retry := team.Retry{Rounds: 3, RoundInitial: team.Duration(5 * time.Second), RoundMax: team.Duration(20 * time.Second)}
	for _, c := range []struct {
		failure team.Failure
		round   int
		wait    time.Duration
		again   bool
	}{
		{team.Failure{Category: team.TestFailure}, 1, 5 * time.Second, true},
		{team.Failure{Category: team.TestFailure}, 2, 10 * time.Second, true},
		{team.Failure{Category: team.TestFailure}, 3, 0, false},
		{team.Failure{Category: team.RateLimited, RetryAfter: team.Duration(10 * time.Minute)}, 1, 10 * time.Minute, true},
		{team.Failure{Category: team.Auth}, 1, 0, false},
	} {
		wait, again := afterRound(c.failure, c.round, retry)
		require.Equal(t, c.again, again, "%+v", c)
		require.Equal(t, c.wait, wait, "%+v", c)
	}
}

// TestWhichAgentWorks has a persona's agent declined, refused by its budget, and back.
func TestWhichAgentWorks(t *testing.T) {
	t.Parallel()
	c := &agentChoice{
		team: &team.Team{
			Personas: map[string]team.Persona{"a": {Agent: "large", Fallback: true}, "b": {Agent: "other", Fallback: true}},
			Budget:   team.Budget{OnExceeded: team.OnExceededDegrade},
		},
		fallbacks: map[string]string{"large": "small"},
	}
	work := func(persona string) *assignment {
		a := &assignment{}
		a.Persona = persona
		return a
	}
	a, b := work("a"), work("b")
	require.Equal(t, "large", c.of(a))
	require.Equal(t, team.OnExceededDegrade, c.onExceeded(a))
	require.Equal(t, team.OnExceededStop, c.onExceeded(b), "it has no fallback")
	a.agent = "small"
	c.afterFailure(a, team.Failure{Category: team.TestFailure})
	require.Equal(t, "large", c.of(a), "the next round is its own again")
	a.agent, a.degraded = "small", true
	c.afterFailure(a, team.Failure{Category: team.TestFailure})
	require.Equal(t, "small", c.of(a), "its own is too expensive")
	require.Equal(t, team.OnExceededStop, c.onExceeded(a))
}

// TestHowASessionEnds has several reasons at once: what a person did comes first.
func TestHowASessionEnds(t *testing.T) {
	t.Parallel()
	e := &ending{}
	_, reason, err := e.outcome(false, nil)
	require.Error(t, err)
	require.Contains(t, reason, "nothing says why", "a session never ends without an error")
	e.fault = errors.New("no such team")
	state, reason, _ := e.outcome(false, nil)
	require.Equal(t, team.Failed, state)
	require.Equal(t, "no such team", reason)
	e.fail(&request{HelpRequest: team.HelpRequest{Phase: "build", Persona: "a", Category: team.Auth, Message: "no key"}}, "aborted by ann")
	_, reason, _ = e.outcome(false, nil)
	require.Equal(t, "build/a failed: auth: no key (aborted by ann)", reason)
	state, _, _ = e.outcome(true, nil)
	require.Equal(t, team.WasCancelled, state)
	require.True(t, e.stopping())
}

// TestReportsThatBreakersDidNotGetStay keeps them in order.
func TestReportsThatBreakersDidNotGetStay(t *testing.T) {
	t.Parallel()
	var br breakerReports
	br.add(nil)
	for _, id := range []string{"1", "2", "3"} {
		br.add(&team.BreakerReport{ID: id})
	}
	br.sent(2, []team.BreakerReport{{ID: "2"}})
	require.Equal(t, []team.BreakerReport{{ID: "2"}, {ID: "3"}}, br.pending)
}

// TestWhichBudgetARaiseIsFor depends on the requests that are open.
func TestWhichBudgetARaiseIsFor(t *testing.T) {
	t.Parallel()
	status := &team.Status{Session: "s"}
	tm := &team.Team{Name: "t", Budget: team.Budget{Tokens: 100}}
	l := &limits{team: tm, raised: map[string]team.Cap{}}
	rs := &requests{status: status, publisher: &publisher{status: status}, advice: &advice{team: tm, status: status, limits: l}}
	b := &budgets{limits: l, ending: &ending{}, requests: rs}
	require.Equal(t, "session", b.scopeOf(Raise{}))
	waiting := &request{stop: &activities.BudgetStop{Scope: "persona a"}}
	rs.open = []*request{waiting}
	require.Equal(t, "persona a", b.scopeOf(Raise{}))
	require.Equal(t, "phase p", b.scopeOf(Raise{Phase: "p"}))
	rs.open = append(rs.open, &request{stop: &activities.BudgetStop{Scope: "session"}})
	require.ErrorContains(t, b.validate(Raise{Tokens: 1}), "several budgets")
	require.NoError(t, b.validate(Raise{Tokens: 1, Session: true}))
	waiting.closed = true
	require.NoError(t, b.validate(Raise{Tokens: 1}), "only one is awaited")
}
