package service_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/maestro-hive/maestro/internal/agent"
	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// day is what the team has spent today; zero while no session has a daily budget.
func (s *stand) day() budget.DayRow {
	s.t.Helper()
	d, err := s.store.Day(s.namespace, "t")
	if errors.Is(err, session.ErrNotFound) {
		return budget.DayRow{}
	}
	require.NoError(s.t, err)
	return d.Sum()
}

func (s *stand) raiseDay(id string, n int64) (limit spec.Cap) {
	s.t.Helper()
	require.NoError(s.t, s.store.UpdateDay(s.namespace, "t", func(d *budget.Day) error {
		d.Raise(budget.Raise{ID: id, By: "ann", Added: tokens(n)})
		limit = d.Limit()
		return nil
	}))
	return limit
}

func (s *stand) spentBy(sessionID string) int64 {
	s.t.Helper()
	l, err := s.store.Ledger(s.key(sessionID))
	require.NoError(s.t, err)
	return l.Usage().Tokens()
}

// parkedFor reports whether a session waits for a person because of its team's day.
func (s *stand) parkedFor(sessionID, why string) func() bool {
	return func() bool {
		e, err := s.store.Execution(s.key(sessionID))
		return err == nil && e.Status.Status == session.HelpIsNeeded && len(e.Help) == 1 && e.Help[0].Message == why
	}
}

// atWork reports whether the store knows that a session's only assignment is at work.
func (s *stand) atWork(sessionID string) func() bool {
	return func() bool {
		e, err := s.store.Execution(s.key(sessionID))
		if err != nil {
			return false
		}
		r, err := s.store.Record(s.key(sessionID), spec.AssignmentID{Phase: e.Phases[0].Name, Persona: e.Phases[0].Assignments[0].Persona})
		return err == nil && r.Status().Status == session.Running
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
	require.Equal(t, budget.DayRow{Spent: tokens(180)}, s.day(), "what it has not spent is given back")
	day, err := s.store.Day(s.namespace, "t")
	require.NoError(t, err)
	require.Len(t, day.Warnings, 1)

	run := s.start("second", tm)
	spent := "the daily budget of team t is not sufficient: %d of %d tokens left, and the next call needs 60; the next day begins at " + tomorrow() + " 00:00 UTC"
	require.Eventually(t, s.parkedFor("second", fmt.Sprintf(spent, 20, 200)), time.Minute, 20*time.Millisecond)
	require.Contains(t, s.execution("second").Help[0].Advice, "continues by itself at "+tomorrow()+" 00:00 UTC")
	require.Contains(t, s.execution("second").Help[0].Advice, "maestro budget raise --team t --tokens N")
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
	require.Equal(t, budget.DayRow{Spent: tokens(360)}, s.day())
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
	require.Equal(t, budget.DayRow{Spent: tokens(120)}, s.day())
}

// TestCallWaitsForWhatAnotherSessionMayGiveBack has a first call hold all that is
// left of the day, because nobody knows what it costs.
func TestCallWaitsForWhatAnotherSessionMayGiveBack(t *testing.T) {
	t.Parallel()
	withinADay(t)
	dir := t.TempDir()
	gate, begun := filepath.Join(dir, "gate"), filepath.Join(dir, "begun")
	coder := shell(fmt.Sprintf(`touch %s; while test ! -e %s; do sleep 0.05; done; echo work > $RANDOM.txt; echo '{"usage":{"output_tokens":60}}' > $MAESTRO_RESULT`, begun, gate))
	coder.Concurrency = 4
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"coder": coder}})
	tm := oneStep()
	tm.Budget = spec.Budget{Daily: spec.Cap{Tokens: 150}}
	first := s.start("first", tm)
	require.Eventually(t, func() bool { _, err := os.Stat(begun); return err == nil }, time.Minute, 10*time.Millisecond)
	require.Equal(t, tokens(150), s.day().Reserved)
	second := s.start("second", tm)
	require.Eventually(t, s.atWork("second"), time.Minute, 10*time.Millisecond)
	require.Zero(t, s.spentBy("second"))
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	require.NoError(t, first.Get(t.Context(), nil))
	require.NoError(t, second.Get(t.Context(), nil))
	require.Equal(t, budget.DayRow{Spent: tokens(120)}, s.day())
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
	require.Equal(t, budget.DayRow{Spent: tokens(960)}, s.day())
}
