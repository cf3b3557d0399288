package breaker_test

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
)

// stand is a real server and a client of one store's breakers.
type stand struct {
	*breaker.Client
	t       *testing.T
	address string
}

func newStand(t *testing.T, flags ...string) *stand {
	t.Helper()
	s := &stand{t: t, address: temporaltest.Start(t, flags...)}
	s.Client = s.connect()
	return s
}

func (s *stand) connect() *breaker.Client {
	s.t.Helper()
	conn, err := temporalutil.DialAddress(s.t.Context(), s.address, "default", nil)
	require.NoError(s.t, err)
	s.t.Cleanup(conn.Close)
	return &breaker.Client{Temporal: conn.Client, Store: "store"}
}

// work starts a worker that answers for the breakers; it is stopped by the
// returned function, or at the end of the test.
func (s *stand) work(c *breaker.Client) (stop func()) {
	s.t.Helper()
	w := worker.New(c.Temporal, spec.WorkflowQueue(c.Store), worker.Options{StickyScheduleToStartTimeout: time.Second})
	w.RegisterWorkflowWithOptions(breaker.Workflow, workflow.RegisterOptions{Name: breaker.WorkflowName})
	require.NoError(s.t, w.Start())
	stop = sync.OnceFunc(w.Stop)
	s.t.Cleanup(stop)
	return stop
}

// histories is where the breakers' histories are kept, for the replay test;
// empty: nowhere.
var histories = flag.String("histories", "", "directory to write the breakers' histories to")

// keepHistory writes the history of the test's breaker to a file named after
// the test.
func (s *stand) keepHistory() {
	s.t.Helper()
	temporaltest.KeepHistory(s.t.Context(), s.t, s.Temporal, breaker.WorkflowID("store", "coder"), "", *histories)
}

// TestRecordedHistoriesReplay replays breakers that earlier code has run: they
// live for years, so what changes the commands of a running one fails here.
func TestRecordedHistoriesReplay(t *testing.T) {
	t.Parallel()
	temporaltest.ReplayHistories(t, map[string]any{breaker.WorkflowName: breaker.Workflow})
}

func (s *stand) must(answer breaker.Answer, err error) breaker.Answer {
	s.t.Helper()
	require.NoError(s.t, err)
	return answer
}

func five() spec.Breaker {
	return spec.Breaker{Cooldown: textfmt.Duration(time.Hour), MaxCooldown: textfmt.Duration(2 * time.Hour)}.For("coder")
}

func failureOf(b spec.Breaker, id string, generation int64) session.BreakerReport {
	return session.BreakerReport{
		ID: id, Breaker: b, Outcome: failures.CountsAsFailure, BreakerPermit: session.BreakerPermit{Generation: generation},
		Category: failures.RateLimited, Message: "slow down",
	}
}

func TestTwentyAtOnceMakeOneTransition(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	clients := []*breaker.Client{s.connect(), s.connect()}
	s.work(clients[0])
	s.work(clients[1])
	var all sync.WaitGroup
	var mu sync.Mutex
	effects := map[breaker.Effect]int{}
	for n := range 20 {
		all.Go(func() {
			answer, err := clients[n%2].Report(t.Context(), failureOf(five(), fmt.Sprint("r", n), 0))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			effects[answer.Effect]++
		})
	}
	all.Wait()
	require.Equal(t, map[breaker.Effect]int{breaker.Applied: 5, breaker.Ignored: 15}, effects)
	view, err := s.Read(t.Context(), "coder")
	require.NoError(t, err)
	require.Equal(t, int64(1), view.State.Generation)
	require.Equal(t, 1, view.State.Trips)
	require.Equal(t, 5, view.State.Failures)
}

func TestReportSurvivesAnAbsentWorkerAndCountsOnce(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := s.Report(ctx, failureOf(five(), "r1", 0))
		cancel()
		require.Error(t, err)
	}
	view, err := s.Read(t.Context(), "coder")
	require.NoError(t, err, "a breaker that nobody serves can be read")
	require.Zero(t, view.State)
	stop := s.work(s.Client)
	for range 2 {
		answer := s.must(s.Report(t.Context(), failureOf(five(), "r1", 0)))
		require.Equal(t, 1, answer.State.Failures)
	}
	stop()
	view, err = s.Read(t.Context(), "coder")
	require.NoError(t, err)
	require.Equal(t, 1, view.State.Failures)
}

func TestContinuingAsNewLosesNothing(t *testing.T) {
	t.Parallel()
	s := newStand(t, "--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=60")
	s.work(s.Client)
	never := five()
	never.Threshold = 1_000_000
	const callers, each = 8, 25
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for n := range each {
				for range 2 { // each report is sent twice
					if _, err := s.Report(t.Context(), failureOf(never, fmt.Sprintf("r%d.%d", c, n), 0)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	view, err := s.Read(t.Context(), "coder")
	require.NoError(t, err)
	require.Equal(t, callers*each, view.State.Failures)
	d, err := s.Temporal.DescribeWorkflowExecution(t.Context(), breaker.WorkflowID("store", "coder"), "")
	require.NoError(t, err)
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, d.GetWorkflowExecutionInfo().GetStatus())
	require.NotEqual(t, d.GetWorkflowExecutionInfo().GetFirstRunId(), d.GetWorkflowExecutionInfo().GetExecution().GetRunId(),
		"it did continue as new")
	require.Less(t, d.GetWorkflowExecutionInfo().GetHistoryLength(), int64(1000))
}

func TestProbesOverARealServer(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.work(s.Client)
	b := spec.Breaker{
		Threshold: 1, Cooldown: textfmt.Duration(500 * time.Millisecond),
		MaxCooldown: textfmt.Duration(time.Hour),
	}.For("coder")
	open := s.must(s.Report(t.Context(), failureOf(b, "r1", 0)))
	require.True(t, open.State.Open)
	require.Eventually(t, func() bool { return open.State.HalfOpen(time.Now()) }, time.Minute, 10*time.Millisecond)
	var mu sync.Mutex
	var all sync.WaitGroup
	var holders []string
	for n := range 10 {
		all.Go(func() {
			holder := fmt.Sprint("p", n)
			answer, err := s.Acquire(t.Context(), holder, b, holder)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if answer.Effect == breaker.Leased {
				holders = append(holders, holder)
			}
		})
	}
	all.Wait()
	require.Len(t, holders, 1, "one probe goes through")
	require.Equal(t, breaker.Leased, s.must(s.Renew(t.Context(), "renew", b, holders[0])).Effect)
	require.Equal(t, breaker.Refused, s.must(s.Renew(t.Context(), "renew other", b, "other")).Effect)
	probe := failureOf(b, "r2", 1)
	probe.Outcome, probe.Holder = failures.CountsAsSuccess, holders[0]
	require.False(t, s.must(s.Report(t.Context(), probe)).State.Open)
	s.keepHistory()
}

func TestTripAndResetByHand(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.work(s.Client)
	answer := s.must(s.Trip(t.Context(), "t1", "coder", breaker.TripRequest{
		By: "ann", Why: "maintenance",
		For: textfmt.Duration(time.Hour),
	}))
	status := answer.Status().At(time.Now())
	require.Equal(t, session.BreakerIsOpen, status.State)
	require.Equal(t, "maintenance", status.Forced.Why)
	require.WithinDuration(t, time.Now().Add(time.Hour), *status.OpenUntil, 10*time.Minute)
	answer = s.must(s.Reset(t.Context(), "t2", "coder", breaker.ResetRequest{By: "bob"}))
	require.False(t, answer.State.Open)
	require.Equal(t, int64(2), answer.State.Generation)
	_, err := s.Trip(t.Context(), "t3", "coder", breaker.TripRequest{By: "ann"})
	require.ErrorContains(t, err, "missing why")
	s.keepHistory()
}
