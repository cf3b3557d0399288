package activities_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/team"
)

// days is a team's day in memory, at the other end of a bad line.
type days struct {
	now func() time.Time
	// lose is how many answers get lost after the draw was applied.
	lose int

	mu    sync.Mutex
	day   budget.Day
	draws []budget.Draw
	ids   []string
	view  *budget.DayView
}

func (d *days) Read(context.Context, string) (budget.DayView, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.view != nil {
		return *d.view, nil
	}
	return d.day.View("t"), nil
}

func (d *days) Draw(_ context.Context, id, _ string, r budget.Draw) (out budget.Drawing, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.draws, d.ids = append(d.draws, r), append(d.ids, id)
	d.day, out = d.day.Draw(r, d.now())
	if d.lose > 0 {
		d.lose--
		return budget.Drawing{}, errors.New("the line is cut")
	}
	return out, nil
}

// withDay gives the desk's team a daily budget, and its attempts a cost.
func withDay(t *testing.T, limit int64, d *days) *desk {
	t.Helper()
	desk := newDesk(t)
	desk.team.Budget.Daily = team.Cap{Tokens: limit}
	desk.admit()
	desk.days, desk.agents.reserve = d, team.Amount{Tokens: 60}
	desk.agents.run = func(ctx context.Context, job team.Job) (team.Outcome, error) {
		out, err := leave("a.txt", "x")(ctx, job)
		out.Usage = team.Usage{OutputTokens: 50}
		return out, err
	}
	return desk
}

func TestADrawWhoseAnswerIsLostIsGrantedOnce(t *testing.T) {
	t.Parallel()
	line := &days{now: time.Now, lose: 1}
	d := withDay(t, 100, line)
	result, err := d.round(activities.Heartbeat{})
	require.NoError(t, err)
	require.Equal(t, int64(50), result.Usage.Tokens())
	require.Equal(t, line.ids[0], line.ids[1], "it is sent again under its id")
	require.Len(t, line.draws, 3, "asked, asked again, and given back: %+v", line.draws)
	require.Equal(t, team.Amount{Tokens: 50}, line.day.View("t").Granted)
	require.Equal(t, team.Amount{Tokens: 50}, line.day.View("t").Spent)
	ledger, err := d.store.Ledger(d.key())
	require.NoError(t, err)
	require.Equal(t, int64(50), ledger.Day.Granted.Tokens)
}

func TestWhatCouldNotBeGivenBackIsThereForTheNextRound(t *testing.T) {
	t.Parallel()
	line := &days{now: time.Now}
	d := withDay(t, 110, line)
	d.agents.run = func(ctx context.Context, job team.Job) (team.Outcome, error) {
		line.mu.Lock()
		line.lose, line.day = 1, budget.Day{} // the budget and its answer are lost
		line.mu.Unlock()
		out, err := leave("a.txt", "x")(ctx, job)
		out.Usage = team.Usage{OutputTokens: 50}
		return out, err
	}
	_, err := d.round(activities.Heartbeat{})
	require.NoError(t, err)
	require.Equal(t, team.Amount{Tokens: 50}, line.day.View("t").Granted, "a lost budget learns what was spent")
}

func TestAWorkerWhoseClockIsAheadWaitsForTheDay(t *testing.T) {
	t.Parallel()
	asked := 0
	line := &days{now: func() time.Time {
		if asked++; asked == 1 {
			return time.Now().AddDate(0, 0, -1)
		}
		return time.Now()
	}}
	d := withDay(t, 100, line)
	_, err := d.round(activities.Heartbeat{})
	require.NoError(t, err)
	require.Equal(t, team.Amount{Tokens: 50}, line.day.View("t").Spent)
}

func TestASpentDayFailsTheAttempt(t *testing.T) {
	t.Parallel()
	line := &days{now: time.Now}
	d := withDay(t, 59, line)
	_, err := d.round(activities.Heartbeat{})
	require.ErrorContains(t, err, "the daily budget of team t is spent: 59 of 59 tokens are left, and the next call needs 60; the next day begins at")
	require.Zero(t, line.day.View("t").Granted)
	require.Len(t, d.record().Rounds[0].Attempts, 1)
	require.Equal(t, team.TokenBudget, d.record().Rounds[0].Attempts[0].Failure.Category)
}

func TestTheWaitForADayEndsAtMidnightOrWhenItCanPay(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	spent := budget.DayView{Team: "t", Date: "2026-01-31", Limit: team.Cap{Tokens: 100}, Granted: team.Amount{Tokens: 100}, Spent: team.Amount{Tokens: 100}}
	for name, change := range map[string]func(now *time.Time, v *budget.DayView){
		"midnight": func(now *time.Time, _ *budget.DayView) { *now = noon.Add(12 * time.Hour) },
		"a raise":  func(_ *time.Time, v *budget.DayView) { v.Limit.Tokens = 160 },
		"a return": func(_ *time.Time, v *budget.DayView) { v.Granted.Tokens = 40; v.Spent.Tokens = 40 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now, view := noon, spent
			line := &days{view: &view}
			looks := 0
			waits := &activities.DayWaits{Days: line, Clock: func() time.Time {
				line.mu.Lock()
				defer line.mu.Unlock()
				if looks++; looks == 2 {
					change(&now, &view)
				}
				return now
			}}
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			env.RegisterActivity(waits.Await)
			_, err := env.ExecuteActivity(waits.Await, activities.AwaitDayInput{Team: "t", Date: "2026-01-31", Least: team.Amount{Tokens: 60}})
			require.NoError(t, err)
			require.GreaterOrEqual(t, looks, 2, "the spent day was waited for")
		})
	}
}
