package service_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// day is the daily budget of the team.
func (s *stand) day() state.Day {
	s.t.Helper()
	d, err := s.store.State.Day(s.t.Context(), "t")
	require.NoError(s.t, err)
	return d
}

// spentToday checks what the team has spent today. Nothing is reserved or unsettled.
func (s *stand) spentToday(n int64, says ...any) {
	s.t.Helper()
	d := s.day()
	require.Equal(s.t, []cost.Amount{tokens(n), {}, {}}, []cost.Amount{d.Spent, d.Reserved, d.Unsettled}, says...)
}

func (s *stand) raiseDay(id string, n int64) (limit spec.Cap) {
	s.t.Helper()
	raised, err := s.store.State.AddRaise(s.t.Context(), session.Key{}, budget.Raise{ID: id, Scope: budget.DayScope, Team: "t", By: "ann", Added: tokens(n)}, "cli")
	require.NoError(s.t, err)
	return raised.Cap
}

// account is what a session has cost, and its budgets.
func (s *stand) account(sessionID string) state.Account {
	s.t.Helper()
	a, err := s.store.State.Account(s.t.Context(), s.key(sessionID))
	require.NoError(s.t, err)
	return a
}

func (s *stand) spentBy(sessionID string) int64 {
	s.t.Helper()
	a := s.account(sessionID)
	return a.Usage().Tokens()
}

// parkedFor reports whether a session waits for a person because of its team's day.
func (s *stand) parkedFor(sessionID, why string) func() bool {
	return func() bool {
		e, err := s.store.State.Execution(s.t.Context(), s.key(sessionID))
		return err == nil && e.Status.Status == session.HelpIsNeeded && len(e.Help) == 1 && e.Help[0].Message == why
	}
}

// withinADay skips a test that would see the next day's budget begin.
func withinADay(t *testing.T) {
	t.Helper()
	if now := time.Now().UTC(); now.Add(5*time.Minute).Day() != now.Day() {
		t.Skip("the day ends soon")
	}
}

func tomorrow() string { return time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly) }

func tokens(n int64) cost.Amount { return cost.Amount{Tokens: n} }

func TestSessionsOfATeamShareItsDay(t *testing.T) {
	t.Parallel()
	withinADay(t)
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"a": costing()}})
	tm := threeSteps(spec.Budget{Daily: spec.Cap{Tokens: 200}, WarnAt: []float64{0.5}, OnExceeded: spec.OnExceededAsk})
	_, err := s.run("first", tm)
	require.NoError(t, err)
	require.Equal(t, int64(180), s.spentBy("first"))
	s.spentToday(180, "what it has not spent is given back")
	require.Len(t, s.day().Warnings, 1)

	run := s.start("second", tm)
	spent := "the daily budget of team t is not sufficient: %d of %d tokens left, and the next call needs 60; the next day begins at " + tomorrow() + " 00:00 UTC"
	require.Eventually(t, s.parkedFor("second", fmt.Sprintf(spent, 20, 200)), time.Minute, 20*time.Millisecond)
	require.Contains(t, s.execution("second").Help[0].Suggestion, "continues by itself at "+tomorrow()+" 00:00 UTC")
	require.Contains(t, s.execution("second").Help[0].Command, "maestro budget raise --team t --tokens N")
	require.Zero(t, s.spentBy("second"), "another session has learnt what a call costs")

	for range 2 {
		require.Equal(t, spec.Cap{Tokens: 300}, s.raiseDay("r1", 100), "sent twice, it counts once")
	}
	require.Eventually(t, s.parkedFor("second", fmt.Sprintf(spent, 0, 300)), time.Minute, 20*time.Millisecond)
	require.Equal(t, int64(120), s.spentBy("second"))
	s.raiseDay("r2", 60)
	require.NoError(t, run.Get(t.Context(), nil))
	s.keepHistory(run)
	require.Equal(t, int64(180), s.spentBy("second"))
	s.spentToday(360)
	e := s.execution("second")
	a := e.Assignment(spec.AssignmentID{Phase: "one", Persona: "dev"})
	require.Equal(t, 1, a.Attempts, "waiting for a day uses up nothing")
	require.Empty(t, e.Help)
}

func TestSpentDayStopsASessionThatMayNotAsk(t *testing.T) {
	t.Parallel()
	withinADay(t)
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"a": costing()}})
	_, err := s.run("s", threeSteps(spec.Budget{Daily: spec.Cap{Tokens: 150}}))
	require.ErrorContains(t, err, "three/dev failed: token_budget: the daily budget of team t is not sufficient: 30 of 150 tokens left, and the next call needs 60; the next day begins at "+tomorrow())
	require.Equal(t, int64(120), s.spentBy("s"))
	s.spentToday(120)
}

func TestManySessionsNeverPassTheirDay(t *testing.T) {
	t.Parallel()
	withinADay(t)
	coder := costing()
	coder.Concurrency = 8
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"a": coder}})
	tm := threeSteps(spec.Budget{Daily: spec.Cap{Tokens: 1000}})
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
	s.spentToday(960)
}
