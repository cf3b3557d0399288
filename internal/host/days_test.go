package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/agent"
	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/host"
	"github.com/maestro-hive/maestro/internal/team"
	"github.com/maestro-hive/maestro/internal/temporalio"
	"github.com/maestro-hive/maestro/internal/temporalio/temporaltest"
	"github.com/maestro-hive/maestro/workflows"
)

func (s *stand) days() *host.Days { return &host.Days{Temporal: s.client, Store: s.store.ID()} }

func (s *stand) day() budget.DayView {
	s.t.Helper()
	v, err := s.days().Read(s.t.Context(), "t")
	require.NoError(s.t, err)
	return v
}

func (s *stand) spentBy(session string) int64 {
	s.t.Helper()
	l, err := s.store.Ledger(team.SessionKey{Namespace: "default", Session: session})
	require.NoError(s.t, err)
	return l.Usage().Tokens()
}

// parkedFor tells whether a session waits for a person because of its team's day.
func (s *stand) parkedFor(session, why string) func() bool {
	return func() bool {
		e, err := s.store.Execution(team.SessionKey{Namespace: "default", Session: session})
		return err == nil && e.Status.Status == team.HelpIsNeeded && len(e.Help) == 1 && e.Help[0].Message == why
	}
}

func tomorrow() string { return time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly) }

func tokens(n int64) team.Amount { return team.Amount{Tokens: n} }

func TestSessionsOfATeamShareItsDay(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"a": costing()}})
	tm := threeSteps(team.Budget{Daily: team.Cap{Tokens: 200}, WarnAt: []float64{0.5}, OnExceeded: team.OnExceededAsk})
	_, err := s.run("first", tm)
	require.NoError(t, err)
	require.Equal(t, int64(180), s.spentBy("first"))
	view := s.day()
	require.Equal(t, tokens(180), view.Granted, "what it has not spent is given back")
	require.Equal(t, tokens(180), view.Spent)
	ledger, err := s.store.Ledger(team.SessionKey{Namespace: "default", Session: "first"})
	require.NoError(t, err)
	require.Len(t, ledger.Warnings, 1)
	require.Equal(t, budget.DayScope, ledger.Warnings[0].Scope)

	run := s.start("second", tm)
	spent := "the daily budget of team t is spent: %d of %d tokens are left, and the next call needs 60; the next day begins at " + tomorrow() + " 00:00 UTC"
	require.Eventually(t, s.parkedFor("second", fmt.Sprintf(spent, 20, 200)), 20*time.Second, 20*time.Millisecond)
	require.Contains(t, s.execution("second").Help[0].Advice, "goes on by itself at "+tomorrow()+" 00:00 UTC")
	require.Contains(t, s.execution("second").Help[0].Advice, "maestro budget raise --team t --tokens N")
	require.Zero(t, s.spentBy("second"), "another session has learnt what a call costs")

	for range 2 {
		view, err = s.days().Raise(t.Context(), "r1", "t", workflows.RaiseDay{Tokens: 100, By: "ann"})
		require.NoError(t, err)
		require.Equal(t, team.Cap{Tokens: 300}, view.Limit, "sent twice, it counts once")
	}
	require.Eventually(t, s.parkedFor("second", fmt.Sprintf(spent, 0, 300)), 20*time.Second, 20*time.Millisecond)
	require.Equal(t, int64(120), s.spentBy("second"))
	_, err = s.days().Raise(t.Context(), "r2", "t", workflows.RaiseDay{Tokens: 60})
	require.NoError(t, err)
	require.NoError(t, run.Get(t.Context(), nil))
	s.keepHistory(run)
	require.Equal(t, int64(180), s.spentBy("second"))
	require.Equal(t, tokens(360), s.day().Granted)
	e := s.execution("second")
	a := e.Assignment(team.AssignmentID{Phase: "one", Persona: "dev"})
	require.Equal(t, 1, a.Attempts, "waiting for a day uses up nothing")
	require.Empty(t, e.Help)
}

func TestSpentDayStopsASessionThatMayNotAsk(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"a": costing()}})
	_, err := s.run("s", threeSteps(team.Budget{Daily: team.Cap{Tokens: 150}}))
	require.ErrorContains(t, err, "three/dev failed: token_budget: the daily budget of team t is spent: 30 of 150 tokens are left, and the next call needs 60; the next day begins at "+tomorrow())
	require.Equal(t, int64(120), s.spentBy("s"))
	require.Equal(t, tokens(120), s.day().Granted)
}

// TestCallWaitsForWhatAnotherSessionMayGiveBack has a first call hold all that is
// left of the day, because nobody knows what it costs.
func TestCallWaitsForWhatAnotherSessionMayGiveBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gate, begun := filepath.Join(dir, "gate"), filepath.Join(dir, "begun")
	coder := shell(fmt.Sprintf(`touch %s; while test ! -e %s; do sleep 0.05; done; echo work > $RANDOM.txt; echo '{"usage":{"output_tokens":60}}' > $MAESTRO_RESULT`, begun, gate))
	coder.Concurrency = 4
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"coder": coder}})
	tm := oneStep()
	tm.Budget = team.Budget{Daily: team.Cap{Tokens: 150}}
	first := s.start("first", tm)
	require.Eventually(t, func() bool { _, err := os.Stat(begun); return err == nil }, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, tokens(150), s.day().Granted)
	second := s.start("second", tm)
	require.Eventually(t, func() bool { return s.day().Sessions == 2 }, 20*time.Second, 10*time.Millisecond)
	require.Zero(t, s.spentBy("second"))
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	require.NoError(t, first.Get(t.Context(), nil))
	require.NoError(t, second.Get(t.Context(), nil))
	require.Equal(t, tokens(120), s.day().Spent)
	require.Equal(t, tokens(120), s.day().Granted)
}

func TestManySessionsNeverPassTheirDay(t *testing.T) {
	t.Parallel()
	coder := costing()
	coder.Concurrency = 8
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"a": coder}})
	tm := threeSteps(team.Budget{Daily: team.Cap{Tokens: 1000}})
	var runs []client.WorkflowRun
	for n := range 10 {
		runs = append(runs, s.start(fmt.Sprint("s", n), tm))
	}
	spent := int64(0)
	for n, run := range runs {
		_ = run.Get(t.Context(), nil) // some fail, because the day is spent
		spent += s.spentBy(fmt.Sprint("s", n))
	}
	require.Equal(t, int64(960), spent, "sixteen calls of 60 are what 1000 pays for, and none of them is refused")
	require.Equal(t, tokens(960), s.day().Granted)
}

// TestDailyBudgetOverARealServer has sessions draw from a budget whose worker
// comes, goes and continues as new.
func TestDailyBudgetOverARealServer(t *testing.T) {
	t.Parallel()
	conn, err := temporalio.DialAddress(t.Context(), temporaltest.Start(t, "--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=60"), "default", nil)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	days := &host.Days{Temporal: conn.Client, Store: "store"}
	today := budget.Date(time.Now())
	draw := func(session string, serial, want int64) budget.Draw {
		return budget.Draw{Session: session, Date: today, Serial: serial, Cap: team.Cap{Tokens: 1_000_000}, Want: tokens(want), Least: tokens(want), Agent: "a"}
	}
	view, err := days.Read(t.Context(), "t")
	require.NoError(t, err)
	require.Empty(t, view.Date)
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = days.Draw(short, "d", "t", draw("early", 0, 100))
	require.Error(t, err, "nobody answers yet, so nothing is granted")

	w := worker.New(conn.Client, team.WorkflowQueue("store"), worker.Options{})
	w.RegisterWorkflowWithOptions(workflows.DailyBudget, workflow.RegisterOptions{Name: workflows.DailyBudgetName})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	answer, err := days.Draw(t.Context(), "d", "t", draw("early", 0, 100))
	require.NoError(t, err)
	require.Equal(t, int64(1), answer.Allowance.Serial, "it was sent twice and counts once")
	_, err = days.Raise(t.Context(), "r", "t", workflows.RaiseDay{Tokens: 10, By: "ann"})
	require.NoError(t, err)
	temporaltest.KeepHistory(t.Context(), t, conn.Client, workflows.DailyBudgetID("store", "t"), "", *histories)

	var all sync.WaitGroup
	for c := range 8 {
		all.Go(func() {
			session := fmt.Sprint("s", c)
			for n := range int64(20) {
				d := draw(session, n, 10)
				d.Spent = tokens(10 * n)
				if _, err := days.Draw(t.Context(), fmt.Sprintf("%s.%d", session, n), "t", d); err != nil {
					t.Error(err)
				}
			}
			d := draw(session, 20, 0)
			d.Spent = tokens(200)
			if _, err := days.Draw(t.Context(), session+".back", "t", d); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	back := draw("early", 1, 0)
	back.Spent = tokens(7)
	_, err = days.Draw(t.Context(), "d.back", "t", back)
	require.NoError(t, err)
	view, err = days.Read(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, tokens(8*200+7), view.Granted)
	require.Equal(t, tokens(8*200+7), view.Spent)
	d, err := conn.DescribeWorkflowExecution(t.Context(), workflows.DailyBudgetID("store", "t"), "")
	require.NoError(t, err)
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, d.GetWorkflowExecutionInfo().GetStatus())
	require.NotEqual(t, d.GetWorkflowExecutionInfo().GetFirstRunId(), d.GetWorkflowExecutionInfo().GetExecution().GetRunId(), "it did continue as new")
}
