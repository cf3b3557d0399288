package service_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/workflows"
)

func (s *stand) breakers() *breaker.Client {
	return &breaker.Client{Temporal: s.client, Store: s.store.ID()}
}

// waiting reports whether a session waits for a breaker, in all that is written of it.
func (s *stand) waiting(sessionID string) bool {
	e, err := s.store.State.Execution(s.t.Context(), s.key(sessionID))
	return err == nil && e.Status.Status == session.WaitingForBreaker
}

// awaits reports whether a wait of the session for a breaker is under way in Temporal.
func (s *stand) awaits(sessionID string) bool {
	d, err := s.client.DescribeWorkflowExecution(s.t.Context(), sessionID, "")
	return err != nil || slices.ContainsFunc(d.GetPendingActivities(), func(p *workflowpb.PendingActivityInfo) bool {
		return p.GetActivityType().GetName() == string(activities.AwaitBreakerName)
	})
}

func (s *stand) events(sessionID string) int64 {
	s.t.Helper()
	d, err := s.client.DescribeWorkflowExecution(s.t.Context(), sessionID, "")
	require.NoError(s.t, err)
	return d.GetWorkflowExecutionInfo().GetHistoryLength()
}

func oneStep() spec.Team {
	return spec.Team{
		Version: 1, Name: "t", Personas: map[string]spec.Persona{"dev": {Role: "d", Agent: "coder", Instructions: "do"}},
		Phases: []spec.Phase{{Name: "build", Personas: []string{"dev"}}},
		Retry:  spec.Retry{Attempts: 1, Rounds: 1, Patience: new(textfmt.Duration)}, // a provider's failure counts
		Help:   spec.Help{Mode: spec.HelpFail},
	}
}

func TestFifthFailureOpensAndSessionsWaitAtNoCost(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "broken")
	require.NoError(t, os.WriteFile(broken, nil, 0o600))
	coder := shell(`test -e ` + broken + ` && { echo '{"error":{"category":"api_error","message":"503"}}' > $MAESTRO_RESULT; exit 1; }; echo done > done`)
	coder.Breaker = spec.Breaker{Name: "provider", Cooldown: textfmt.Duration(time.Hour)}
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"coder": coder}})
	for n := 1; n <= 5; n++ {
		_, err := s.run(fmt.Sprint("failing", n), oneStep())
		require.ErrorContains(t, err, "503")
		view, err := s.breakers().Read(t.Context(), "provider")
		require.NoError(t, err)
		require.Equal(t, n, view.State.Failures)
		require.Equal(t, n == 5, view.State.Open, "after failure %d", n)
	}
	run := s.start("waiting", oneStep())
	require.Eventually(t, func() bool { return s.waiting("waiting") }, time.Minute, 10*time.Millisecond)
	e := s.execution("waiting")
	require.Contains(t, e.Reason, "breaker provider")
	require.Contains(t, e.Reason, "5 consecutive failures, last: api_error: agent coder: 503")
	require.Equal(t, 0, e.Phases[0].Assignments[0].Rounds)
	require.Equal(t, 0, e.Phases[0].Assignments[0].Attempts)
	require.Equal(t, session.Waiting, e.Phases[0].Assignments[0].Status)
	var status session.Status
	answer, err := s.client.QueryWorkflow(t.Context(), "waiting", "", workflows.StatusQuery)
	require.NoError(t, err)
	require.NoError(t, answer.Get(&status))
	require.Equal(t, session.WaitingForBreaker, status.Status)
	require.Equal(t, 0, status.Phases[0].Assignments[0].Rounds)
	require.Contains(t, status.Reason, "maestro breaker show provider")
	stored, err := s.store.State.Breaker(t.Context(), "provider")
	require.NoError(t, err)
	require.Equal(t, 5, stored.Failures)
	require.Equal(t, session.BreakerIsOpen, stored.State)

	require.NoError(t, os.Remove(broken))
	_, err = s.breakers().Reset(t.Context(), "reset", "provider", breaker.ResetRequest{By: "test"})
	require.NoError(t, err)
	require.NoError(t, run.Get(t.Context(), nil))
	s.keepHistory(run)
	e = s.execution("waiting")
	require.Empty(t, e.Reason)
	require.Equal(t, 1, e.Phases[0].Assignments[0].Rounds)
	require.Equal(t, 1, e.Phases[0].Assignments[0].Attempts)
}

func TestOneProbeGoesThroughAndItsSuccessLetsTheOthersGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gate, started := filepath.Join(dir, "gate"), filepath.Join(dir, "started")
	coder := shell(fmt.Sprintf(`echo x >> %s; while test ! -e %s; do sleep 0.05; done; echo done > done`, started, gate))
	coder.Breaker = spec.Breaker{Cooldown: textfmt.Duration(time.Second), MaxCooldown: textfmt.Duration(time.Second)}
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"coder": coder}})
	_, err := s.breakers().Trip(t.Context(), "t", "coder", breaker.TripRequest{By: "test", Why: "maintenance", For: textfmt.Duration(3 * time.Second)})
	require.NoError(t, err)
	var runs []client.WorkflowRun
	for n := range 5 {
		runs = append(runs, s.start(fmt.Sprint("s", n), oneStep()))
	}
	lines := func() int {
		data, _ := os.ReadFile(started)
		return strings.Count(string(data), "\n")
	}
	require.Eventually(t, func() bool { return lines() == 1 }, time.Minute, 10*time.Millisecond)
	require.Never(t, func() bool { return lines() > 1 }, 3*time.Second, 50*time.Millisecond, "one probe at a time")
	view, err := s.breakers().Read(t.Context(), "coder")
	require.NoError(t, err)
	require.Len(t, view.State.Probes, 1)
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	for _, run := range runs {
		require.NoError(t, run.Get(t.Context(), nil))
	}
	require.Equal(t, 5, lines())
	s.keepHistory(runs[4])
}

func TestFiftyWaitingSessionsGoOnTogether(t *testing.T) {
	t.Parallel()
	coder := shell(`echo done > done`)
	coder.Concurrency = 50
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"coder": coder}})
	_, err := s.breakers().Trip(t.Context(), "t", "coder", breaker.TripRequest{By: "test", Why: "maintenance"})
	require.NoError(t, err)
	const sessions = 50
	runs := map[string]client.WorkflowRun{}
	for n := range sessions {
		sessionID := fmt.Sprint("s", n)
		runs[sessionID] = s.start(sessionID, oneStep())
	}
	require.Eventually(t, func() bool {
		for sessionID := range runs {
			if !s.waiting(sessionID) || !s.awaits(sessionID) { // it is written before Temporal has the events of the wait
				return false
			}
		}
		return true
	}, time.Minute, 100*time.Millisecond)
	before := map[string]int64{}
	for sessionID := range runs {
		before[sessionID] = s.events(sessionID)
		require.Less(t, before[sessionID], int64(30))
	}
	require.Never(t, func() bool {
		for sessionID, events := range before {
			if s.events(sessionID) != events {
				return true
			}
		}
		return false
	}, 4*time.Second, time.Second, "waiting adds no event")
	_, err = s.breakers().Reset(t.Context(), "r", "coder", breaker.ResetRequest{By: "test"})
	require.NoError(t, err)
	closed := time.Now()
	require.Eventually(t, func() bool {
		for sessionID := range runs {
			if s.awaits(sessionID) {
				return false
			}
		}
		return true
	}, time.Minute, 20*time.Millisecond, "one after the other they would need a second each")
	t.Logf("%d sessions went on within %s", sessions, time.Since(closed))
	for sessionID, run := range runs {
		require.NoError(t, run.Get(t.Context(), nil))
		require.Equal(t, 1, s.execution(sessionID).Phases[0].Assignments[0].Rounds)
	}
}

// TestReportWaitsInTheSessionForAnAbsentBreaker has the breaker on a queue that
// nobody serves yet: the session continues, and the outcome is not lost.
func TestReportWaitsInTheSessionForAnAbsentBreaker(t *testing.T) {
	t.Parallel()
	failed := filepath.Join(t.TempDir(), "failed")
	coder := shell(fmt.Sprintf(`test -e %s || { touch %s; echo '{"error":{"category":"api_error","message":"503"}}' > $MAESTRO_RESULT; exit 1; }; echo done > done`, failed, failed))
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"coder": coder}})
	_, err := s.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: breaker.WorkflowID(s.store.ID(), "coder"), TaskQueue: "nobody's"},
		breaker.WorkflowName, breaker.Input{Store: s.store.ID(), View: breaker.View{Name: "coder"}})
	require.NoError(t, err)
	tm := oneStep()
	tm.Retry = spec.Retry{Attempts: 1, Rounds: 2, RoundInitial: textfmt.Duration(10 * time.Millisecond), Patience: new(textfmt.Duration)}
	run := s.start("s", tm)
	require.Eventually(t, func() bool {
		e, err := s.store.State.Execution(t.Context(), s.key("s"))
		return err == nil && e.Phases[0].Status == session.Completed
	}, time.Minute, 10*time.Millisecond, "the session goes on meanwhile")
	view, err := s.breakers().Read(t.Context(), "coder")
	require.NoError(t, err)
	require.Zero(t, view.State.Failures)

	w := worker.New(s.client, "nobody's", worker.Options{})
	w.RegisterWorkflowWithOptions(breaker.Workflow, workflow.RegisterOptions{Name: breaker.WorkflowName})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	require.NoError(t, run.Get(t.Context(), nil))
	view, err = s.breakers().Read(t.Context(), "coder")
	require.NoError(t, err)
	require.Equal(t, 1, view.State.Failures, "reported once, however often it was sent")
	require.Equal(t, 2, s.execution("s").Phases[0].Assignments[0].Rounds)
	s.keepHistory(run)
}
