package activities_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// withDay gives the desk's team a daily budget, and its attempts a cost.
func withDay(t *testing.T, limit int64) *desk {
	t.Helper()
	d := newDesk(t)
	d.team.Budget.Daily = spec.Cap{Tokens: limit}
	d.admit()
	d.agents.reserve = cost.Amount{Tokens: 60}
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		out, err := leave("a.txt", "x")(ctx, job)
		out.Usage = cost.Usage{OutputTokens: 50}
		return out, err
	}
	return d
}

func (d *desk) day() *budget.Day {
	d.t.Helper()
	day, err := d.store.Day(d.key().Namespace, "t")
	require.NoError(d.t, err)
	return &day
}

// other has another session of the team hold something of the day.
func (d *desk) other(row budget.Row) {
	d.t.Helper()
	key := session.Key{Namespace: d.key().Namespace, Session: "other"}
	require.NoError(d.t, d.store.UpdateLedger(key, func(l *budget.Ledger) error {
		l.Limit("t", budget.LimitsOf(d.team))
		l.SetRow(spec.AssignmentID{Phase: "build", Persona: "dev"}, row, time.Now())
		return nil
	}))
}

func TestWhatACallDoesNotSpendIsGivenBackToTheDay(t *testing.T) {
	t.Parallel()
	d := withDay(t, 100)
	work := d.agents.run
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		require.Equal(t, cost.Amount{Tokens: 60}, d.day().Sum().Reserved)
		return work(ctx, job)
	}
	_, err := d.round(activities.Heartbeat{})
	require.NoError(t, err)
	require.Equal(t, budget.DayRow{Spent: cost.Amount{Tokens: 50}}, d.day().Sum())
}

func TestASpentDayFailsTheAttempt(t *testing.T) {
	t.Parallel()
	d := withDay(t, 100)
	d.other(budget.Row{Unsettled: []budget.UnsettledCall{{Call: 7, Date: budget.Date(time.Now()), Estimate: cost.Usage{OutputTokens: 50}}}})
	_, err := d.round(activities.Heartbeat{})
	require.ErrorContains(t, err, "the daily budget of team t is not sufficient: 50 of 100 tokens left, and the next call needs 60; "+
		"50 tokens of it are estimates of 1 unsettled call of session other: maestro budget settle other build/dev 7 --write-off; the next day begins at")
	require.Zero(t, d.day().Sum().Reserved)
	require.Len(t, d.record().Rounds[0].Attempts, 1)
	require.Equal(t, failures.TokenBudget, d.record().Rounds[0].Attempts[0].Failure.Category)
}

func TestACallWaitsForWhatAnotherSessionHoldsOfTheDay(t *testing.T) {
	t.Parallel()
	d := withDay(t, 100)
	d.other(budget.Row{Reserved: map[int64]cost.Amount{1: {Tokens: 50}}})
	ends := time.AfterFunc(300*time.Millisecond, func() { d.other(budget.Row{}) })
	defer ends.Stop()
	work, waits := d.agents.run, (*session.Waits)(nil)
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		waits = job.Waits
		return work(ctx, job)
	}
	began := time.Now()
	_, err := d.round(activities.Heartbeat{})
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), 250*time.Millisecond)
	require.Greater(t, waits.Total(), 200*time.Millisecond, "it is no part of the attempt's time")
	require.Equal(t, budget.DayRow{Spent: cost.Amount{Tokens: 50}}, d.day().Sum())
}

// money is what a store says of a budget.
type money struct {
	activities.Ledgers
	mu     sync.Mutex
	day    budget.Day
	ledger budget.Ledger
}

func (m *money) UpdateLedger(_ session.Key, change func(*budget.Ledger) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return change(&m.ledger)
}

func (m *money) Day(string, string) (budget.Day, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.day, nil
}

func (m *money) Ledger(session.Key) (budget.Ledger, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ledger, nil
}

func TestTheWaitForABudgetEndsWhenItCanPay(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	spent := budget.DayRow{Spent: cost.Amount{Tokens: 100}}
	id := spec.AssignmentID{Phase: "build", Persona: "dev"}
	unsettled := budget.Row{Unsettled: []budget.UnsettledCall{{Call: 1, Date: "2026-01-31", Estimate: cost.Usage{OutputTokens: 60}}}}
	before := budget.Raise{ID: "before", Scope: budget.DayScope, When: noon.Add(-time.Hour)}
	raise := budget.Raise{ID: "raise", Scope: budget.DayScope, By: "ann", Added: cost.Amount{Tokens: 60}, When: noon.Add(time.Minute)}
	for name, c := range map[string]struct {
		date   string
		change func(now *time.Time, m *money)
		noted  []budget.Raise
	}{
		"midnight":    {"2026-01-31", func(now *time.Time, _ *money) { *now = noon.Add(12 * time.Hour) }, nil},
		"a raise":     {"2026-01-31", func(_ *time.Time, m *money) { m.day.Raise(raise) }, []budget.Raise{raise}},
		"a return":    {"2026-01-31", func(_ *time.Time, m *money) { m.day.Rows = nil }, nil},
		"a write-off": {"", func(_ *time.Time, m *money) { m.ledger.Rows = nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now, scope := noon, budget.SessionScope
			m := &money{day: budget.Day{Date: "2026-01-31", Cap: spec.Cap{Tokens: 100}, Rows: map[string]budget.DayRow{"s": spent}, Raises: []budget.Raise{before}}}
			m.ledger.Limits.Session.Tokens = 100
			m.ledger.Rows = map[string]budget.Row{id.String(): unsettled}
			if c.date != "" {
				scope = budget.DayScope
			}
			looks := 0
			look := func() time.Time {
				m.mu.Lock()
				defer m.mu.Unlock()
				if looks++; looks == 2 {
					c.change(&now, m)
				}
				return now
			}
			waits := &activities.BudgetWaits{Ledgers: watched{m, look}, Clock: func() time.Time {
				m.mu.Lock()
				defer m.mu.Unlock()
				return now
			}}
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			env.RegisterActivity(waits.Await)
			_, err := env.ExecuteActivity(waits.Await, activities.AwaitBudgetInput{
				AssignmentID: id, Scope: scope, Team: "t", Date: c.date, Since: noon, Least: cost.Amount{Tokens: 60},
			})
			require.NoError(t, err)
			require.Equal(t, c.noted, m.ledger.Raises, "people see what let the session go on")
			require.GreaterOrEqual(t, looks, 2, "the spent budget was waited for")
		})
	}
}

// watched tells of each look at the money.
type watched struct {
	*money
	look func() time.Time
}

func (w watched) Day(namespace, name string) (budget.Day, error) {
	w.look()
	return w.money.Day(namespace, name)
}

func (w watched) Ledger(key session.Key) (budget.Ledger, error) {
	w.look()
	return w.money.Ledger(key)
}
