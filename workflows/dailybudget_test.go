package workflows_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/team"
	"github.com/maestro-hive/maestro/workflows"
)

// dayBench runs a daily budget in the SDK's test environment.
type dayBench struct {
	t   *testing.T
	env *testsuite.TestWorkflowEnvironment
	at  time.Duration
}

func newDayBench(t *testing.T, now time.Time) *dayBench {
	var suite testsuite.WorkflowTestSuite
	b := &dayBench{t: t, env: suite.NewTestWorkflowEnvironment()}
	b.env.SetStartTime(now)
	b.env.RegisterWorkflowWithOptions(workflows.DailyBudget, workflow.RegisterOptions{Name: workflows.DailyBudgetName})
	return b
}

// update sends one update a second and hands its end to check.
func (b *dayBench) update(name, id string, arg any, check func(answer any, err error)) {
	b.at += time.Second
	b.env.RegisterDelayedCallback(func() {
		b.env.UpdateWorkflow(name, id, &testsuite.TestUpdateCallback{
			OnReject: func(err error) { check(nil, err) }, OnAccept: func() {}, OnComplete: check,
		}, arg)
	}, b.at)
}

func (b *dayBench) draw(id string, d budget.Draw, check func(budget.Drawing)) {
	b.update(workflows.DrawUpdate, id, d, func(answer any, err error) {
		require.NoError(b.t, err)
		check(answer.(budget.Drawing))
	})
}

// end has the workflow continue as new after the updates and returns its state.
func (b *dayBench) end(in workflows.DailyBudgetInput) workflows.DailyBudgetInput {
	b.env.RegisterDelayedCallback(func() { b.env.SetContinueAsNewSuggested(true) }, b.at+500*time.Millisecond)
	b.update(workflows.DrawUpdate, "last", budget.Draw{}, func(any, error) {}) // wakes it
	b.env.ExecuteWorkflow(workflows.DailyBudgetName, in)
	var again *workflow.ContinueAsNewError
	require.ErrorAs(b.t, b.env.GetWorkflowError(), &again)
	var next workflows.DailyBudgetInput
	require.NoError(b.t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &next))
	return next
}

var morning = time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)

func drawOf(session string, serial, spent, want int64) budget.Draw {
	return budget.Draw{
		Session: session, Date: "2026-01-31", Serial: serial, Cap: team.Cap{Tokens: 1000}, Agent: "writer",
		Spent: team.Amount{Tokens: spent}, Want: team.Amount{Tokens: want}, Least: team.Amount{Tokens: want},
	}
}

func TestDailyBudgetContinuesWithEverything(t *testing.T) {
	t.Parallel()
	first := newDayBench(t, morning)
	var granted budget.Drawing
	first.draw("a1", drawOf("a", 0, 0, 200), func(d budget.Drawing) { granted = d })
	raise := workflows.RaiseDay{Tokens: 500, By: "ann"}
	first.update(workflows.RaiseDayUpdate, "r1", raise, func(answer any, err error) {
		require.NoError(t, err)
		require.EqualValues(t, 1500, answer.(budget.DayView).Limit.Tokens)
	})
	next := first.end(workflows.DailyBudgetInput{Store: "s", Team: "t"})
	require.EqualValues(t, 300, granted.Allowance.Granted.Tokens)
	require.Equal(t, "ann", next.Day.Raises[0].By)

	second := newDayBench(t, morning.Add(time.Hour))
	second.draw("a1", drawOf("a", 0, 0, 200), func(d budget.Drawing) {
		require.Equal(t, granted.Allowance.Granted, d.Allowance.Granted, "the first run has granted that")
	})
	second.update(workflows.RaiseDayUpdate, "r1", raise, func(answer any, err error) {
		require.NoError(t, err)
		require.EqualValues(t, 1500, answer.(budget.DayView).Limit.Tokens, "and added that")
	})
	second.draw("b1", drawOf("b", 0, 0, 1200), func(d budget.Drawing) { require.Equal(t, budget.Drawn, d.Effect) })
	last := second.end(next)
	require.EqualValues(t, 1500, last.Day.View("t").Granted.Tokens)
	require.Len(t, last.Day.Grants, 2)
	require.Len(t, last.Day.Raises, 1)
}

func TestDailyBudgetBeginsAnewAtMidnight(t *testing.T) {
	t.Parallel()
	b := newDayBench(t, morning.Add(15*time.Hour-2*time.Second))
	b.draw("a1", drawOf("a", 0, 0, 1000), func(d budget.Drawing) { require.Equal(t, budget.Drawn, d.Effect) })
	b.at += time.Minute
	b.draw("a2", drawOf("a", 1, 1000, 1), func(d budget.Drawing) {
		require.Equal(t, budget.OtherDay, d.Effect)
		require.Equal(t, "2026-02-01", d.Allowance.Date)
	})
	anew := drawOf("a", 1, 0, 1000)
	anew.Date = "2026-02-01"
	b.draw("a3", anew, func(d budget.Drawing) { require.Equal(t, budget.Drawn, d.Effect) })
	b.end(workflows.DailyBudgetInput{Store: "s", Team: "t"})
}

func TestDailyBudgetRefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	change := func(f func(*budget.Draw)) budget.Draw {
		d := drawOf("a", 0, 0, 1)
		f(&d)
		return d
	}
	for i, c := range []struct {
		update string
		arg    any
		want   string
	}{
		{workflows.DrawUpdate, change(func(d *budget.Draw) { d.Session = "" }), "it names no session"},
		{workflows.DrawUpdate, change(func(d *budget.Draw) { d.Cap = team.Cap{} }), "it names no cap"},
		{workflows.DrawUpdate, change(func(d *budget.Draw) { d.Spent.USD = -1 }), "an amount is negative"},
		{workflows.DrawUpdate, change(func(d *budget.Draw) { d.Serial = -1 }), "an amount is negative"},
		{workflows.RaiseDayUpdate, workflows.RaiseDay{Tokens: -1}, "give positive numbers"},
		{workflows.RaiseDayUpdate, workflows.RaiseDay{}, "neither tokens nor usd"},
		{workflows.RaiseDayUpdate, workflows.RaiseDay{USD: 1}, "team t has no daily budget of USD"},
	} {
		t.Run(fmt.Sprint(i, " ", c.want), func(t *testing.T) {
			t.Parallel()
			b := newDayBench(t, morning)
			b.draw("first", drawOf("x", 0, 0, 1), func(budget.Drawing) {})
			var refused error
			b.update(c.update, "id", c.arg, func(_ any, err error) { refused = err })
			next := b.end(workflows.DailyBudgetInput{Store: "s", Team: "t"})
			require.ErrorContains(t, refused, c.want)
			require.Len(t, next.Day.Grants, 1)
		})
	}
	t.Run("a raise before anybody has drawn", func(t *testing.T) {
		t.Parallel()
		b := newDayBench(t, morning)
		var refused error
		b.update(workflows.RaiseDayUpdate, "id", workflows.RaiseDay{Tokens: 1}, func(_ any, err error) { refused = err })
		b.end(workflows.DailyBudgetInput{Store: "s", Team: "t"})
		require.ErrorContains(t, refused, "no session of team t has drawn")
	})
}
