package activities_test

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
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

func TestASpentDayFailsTheAttempt(t *testing.T) {
	t.Parallel()
	d := withDay(t, 100)
	call := d.other(50)
	require.NoError(t, d.store.State.End(t.Context(), call, state.CallEnd{State: state.CallUnsettled}))
	_, err := d.round()
	require.ErrorContains(t, err, "the daily budget of team t is not sufficient: 50 of 100 tokens left, and the next call needs "+
		"60; "+
		"50 tokens of it are estimates of 1 unsettled call: maestro budget settle other "+call+" --write-off; the next day begins at")
	require.Zero(t, d.day().Reserved)
	require.Len(t, d.record().Rounds[0].Attempts, 1)
	require.Equal(t, failures.TokenBudget, d.record().Rounds[0].Attempts[0].Failure.Category)
}

func TestACallWaitsForWhatAnotherSessionHoldsOfTheDay(t *testing.T) {
	t.Parallel()
	d := withDay(t, 100)
	defer d.end(300*time.Millisecond, d.other(50), state.CallEnd{State: state.CallFailed})()
	work, waits := d.agents.run, (*session.PausedTime)(nil)
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		waits = job.Waits
		return work(ctx, job)
	}
	began := time.Now()
	_, err := d.round()
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), 250*time.Millisecond)
	require.Greater(t, waits.Total(), 200*time.Millisecond, "it is no part of the attempt's time")
	require.Equal(t, cost.Amount{Tokens: 50}, d.day().Held())
}

// changing changes something after the first look at the budgets.
type changing struct {
	activities.State
	looks  int
	change func()
	// day replaces the day of the budgets, if it is set.
	day string
}

func (c *changing) Budgets(ctx context.Context, a state.Assignment, team string) ([]budget.Budget, error) {
	budgets, err := c.State.Budgets(ctx, a, team)
	if c.looks++; c.looks == 1 {
		c.change()
	}
	for i := range budgets {
		budgets[i].Day = cmp.Or(c.day, budgets[i].Day)
	}
	return budgets, err
}

func TestTheWaitForABudgetEndsWhenItCanPay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		scope  string
		change func(d *desk, c *changing, call string) error
	}{
		"midnight": {budget.DayScope, func(_ *desk, c *changing, _ string) error { c.day = "2100-01-01"; return nil }},
		"a raise": {budget.DayScope, func(d *desk, _ *changing, _ string) error {
			_, err := d.store.State.AddRaise(d.t.Context(), session.Key{}, budget.Raise{
				ID: "1", Scope: budget.DayScope, Team: "t",
				Added: cost.Amount{Tokens: 60},
			}, "cli")
			return err
		}},
		"a return": {budget.DayScope, func(d *desk, _ *changing, call string) error {
			return d.store.State.End(d.t.Context(), call, state.CallEnd{State: state.CallFailed})
		}},
		"a write-off": {budget.SessionScope, func(d *desk, _ *changing, call string) error {
			return errors.Join(d.store.State.End(d.t.Context(), call, state.CallEnd{State: state.CallUnsettled}),
				d.store.State.CloseCall(d.t.Context(), call, cost.Usage{}, "ann", ""))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := withDay(t, 100)
			d.team.Budget.Tokens = 100
			key := d.key()
			if c.scope == budget.DayScope {
				key.Session = "other"
			}
			call := d.beginIn(key, 100)
			watched := &changing{State: d.db()}
			watched.change = func() { require.NoError(t, c.change(d, watched, call)) }
			waits := &activities.BudgetWaits{State: watched}
			in := activities.AwaitBudgetInput{
				AssignmentID: d.dev().AssignmentID, Scope: c.scope, Team: "t",
				Least: cost.Amount{Tokens: 60},
			}
			if c.scope == budget.DayScope {
				in.Date = d.day().Day
			}
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			env.RegisterActivity(waits.Await)
			_, err := env.ExecuteActivity(waits.Await, in)
			require.NoError(t, err)
			require.GreaterOrEqual(t, watched.looks, 1, "the spent budget was waited for")
		})
	}
}
