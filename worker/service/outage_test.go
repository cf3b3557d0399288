package service_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// patient is a team of one model, with a patience and what comes after it.
func patient(patience time.Duration, then spec.OnOutage) spec.Team {
	p := textfmt.Duration(patience)
	tm := oneStep()
	tm.Retry = spec.Retry{Attempts: 1, Rounds: 1, Patience: &p, OnOutage: then}
	return tm
}

// modelOf is a worker file with one model of a provider; its breaker opens rarely.
func modelOf(p *providertest.Server, b spec.Breaker) agent.Config {
	return agent.Config{
		Agents:    map[string]agent.Definition{"coder": model()},
		Providers: map[string]agent.Provider{"p": {Format: wire.Anthropic, BaseURL: p.URL(), Breaker: b}},
	}
}

func failingWith(status int) providertest.Reply {
	return providertest.Reply{Fault: providertest.Fault{Status: status, Type: "api_error", Message: "away"}}
}

// TestSingleFailuresOfAProviderCostNothing: each is followed by a good answer, so that the
// conversation continues and the breaker never counts more than one in a row.
func TestSingleFailuresOfAProviderCostNothing(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusTooManyRequests, 529} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			failed := map[int]bool{}
			provider := providertest.New(t, func(r providertest.Request) providertest.Reply {
				mu.Lock()
				defer mu.Unlock()
				turn := r.Turn()
				if !failed[turn] {
					failed[turn] = true
					return failingWith(status)
				}
				if turn < 6 {
					return providertest.Reply{Calls: []providertest.Call{{Name: "write", Arguments: fmt.Sprintf(`{"path":"f%d.txt","content":"x"}`, turn)}}}
				}
				return providertest.Reply{Calls: []providertest.Call{{Name: "finish", Arguments: `{"summary":"done"}`}}}
			})
			s := newStand(t, modelOf(provider, spec.Breaker{}))
			_, err := s.run("s", patient(time.Minute, spec.OutageWait))
			require.NoError(t, err)
			a := s.execution("s").Phases[0].Assignments[0]
			require.Equal(t, 1, a.Rounds)
			require.Equal(t, 1, a.Attempts)
			require.Empty(t, a.Failures)
			require.Equal(t, 12, provider.Count(), "no answer is asked for twice")
			view, err := s.breakers().Read(t.Context(), "coder")
			require.NoError(t, err)
			require.Zero(t, view.State.Trips, "six failures, and never two in a row")
			require.Zero(t, view.State.Failures)
		})
	}
}

// TestOutageThatOutlastsPatienceIsNoticed: people are notified once, and the session goes
// on by itself when the provider is back.
func TestOutageThatOutlastsPatienceIsNoticed(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	away.Store(true)
	hold := make(chan struct{})
	provider := providertest.New(t, func(r providertest.Request) providertest.Reply {
		if away.Load() {
			return failingWith(http.StatusInternalServerError)
		}
		if r.Turn() > 1 {
			<-hold // the round still works when the notice goes
		}
		return writer(r)
	})
	s := newStand(t, modelOf(provider, spec.Breaker{Threshold: 100}))
	run := s.start("s", patient(2*time.Second, spec.OutageWait))
	h := s.asks("s")
	require.Equal(t, session.ForOutage, h.Kind)
	require.Contains(t, h.Message, "away")
	e := s.execution("s")
	require.Equal(t, session.Running, e.Status.Status, "it needs nobody")
	away.Store(false)
	require.Eventually(t, func() bool { return len(s.execution("s").Help) == 0 }, time.Minute, 20*time.Millisecond, "the notice is withdrawn while the round works")
	require.Equal(t, session.Running, s.execution("s").Status.Status)
	close(hold)
	require.NoError(t, run.Get(t.Context(), nil))
	s.keepHistory(run)
	a := s.execution("s").Phases[0].Assignments[0]
	require.Equal(t, 1, a.Rounds)
	require.Equal(t, 1, a.Attempts)
}

// TestTeamThatDoesNotWaitFails: with on_outage fail after its patience, and with no patience
// as with any other failure.
func TestTeamThatDoesNotWaitFails(t *testing.T) {
	t.Parallel()
	for name, tm := range map[string]spec.Team{"fail": patient(time.Second, spec.OutageFail), "no patience": patient(0, "")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := providertest.New(t, func(providertest.Request) providertest.Reply { return failingWith(http.StatusServiceUnavailable) })
			s := newStand(t, modelOf(provider, spec.Breaker{Threshold: 100}))
			_, err := s.run("s", tm)
			require.ErrorContains(t, err, "api_error")
			a := s.execution("s").Phases[0].Assignments[0]
			require.Equal(t, session.Failed, a.Status)
			require.Equal(t, 1, a.Attempts)
		})
	}
}

// TestFirstRoundsRetryAfterIsHonouredByTheNext: at the second level, too.
func TestFirstRoundsRetryAfterIsHonouredByTheNext(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var at []time.Time
	provider := providertest.New(t, func(r providertest.Request) providertest.Reply {
		mu.Lock()
		defer mu.Unlock()
		if at = append(at, time.Now()); len(at) == 1 {
			return providertest.RateLimited("4")
		}
		return writer(r)
	})
	s := newStand(t, modelOf(provider, spec.Breaker{}))
	tm := patient(0, "")
	tm.Retry.Rounds, tm.Retry.RoundInitial = 2, textfmt.Duration(10*time.Millisecond)
	_, err := s.run("s", tm)
	require.NoError(t, err)
	require.GreaterOrEqual(t, at[1].Sub(at[0]), 4*time.Second)
	require.Equal(t, 2, s.execution("s").Phases[0].Assignments[0].Rounds)
}

// TestEndingSessionWaitsForNoProvider: neither where another assignment has failed for good,
// nor where a person cancels.
func TestEndingSessionWaitsForNoProvider(t *testing.T) {
	t.Parallel()
	for name, cancelled := range map[string]bool{"failed": false, "cancelled": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := providertest.New(t, func(providertest.Request) providertest.Reply { return providertest.RateLimited("432000") })
			cfg := modelOf(provider, spec.Breaker{Threshold: 100})
			blocked := filepath.Join(t.TempDir(), "blocked")
			require.NoError(t, os.WriteFile(blocked, nil, 0o600))
			cfg.Agents["refused"] = shell(`while test -e ` + blocked + `; do sleep 0.05; done; echo '{"error":{"category":"auth","message":"refused"}}' > $MAESTRO_RESULT; exit 1`)
			s := newStand(t, cfg)
			tm := patient(30*time.Minute, spec.OutageWait)
			tm.Help = spec.Help{Mode: spec.HelpFail}
			tm.Personas["other"] = spec.Persona{Role: "r", Agent: "refused", Instructions: "fail"}
			tm.Phases[0].Personas = append(tm.Phases[0].Personas, "other")
			run := s.start("s", tm)
			require.Eventually(t, func() bool {
				d, err := s.client.DescribeWorkflowExecution(t.Context(), run.GetID(), run.GetRunID())
				require.NoError(t, err)
				return slices.ContainsFunc(d.PendingActivities, func(a *workflowpb.PendingActivityInfo) bool {
					return a.State == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED && time.Until(a.GetNextAttemptScheduleTime().AsTime()) > time.Hour
				})
			}, time.Minute, 20*time.Millisecond, "it waits without a worker")
			want := "refused"
			if cancelled {
				want = "canceled"
				require.NoError(t, s.client.CancelWorkflow(t.Context(), run.GetID(), run.GetRunID()))
			} else {
				require.NoError(t, os.Remove(blocked))
			}
			bounded, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			require.ErrorContains(t, run.Get(bounded, nil), want)
			require.Equal(t, session.Pending, s.execution("s").Phases[0].Assignments[0].Status)
		})
	}
}

// TestHostsTroubleCostsNothing, and the breaker hears nothing of it.
func TestHostsTroubleCostsNothing(t *testing.T) {
	t.Parallel()
	tries := filepath.Join(t.TempDir(), "tries")
	coder := shell(`echo x >> ` + tries + `; test $(wc -l < ` + tries + `) -lt 3 && { echo '{"error":{"category":"resource_error","message":"no space left"}}' > $MAESTRO_RESULT; exit 1; }; echo done > done`)
	coder.Breaker = spec.Breaker{Name: "host", Threshold: 1}
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"coder": coder}})
	_, err := s.run("s", patient(time.Minute, spec.OutageWait))
	require.NoError(t, err)
	a := s.execution("s").Phases[0].Assignments[0]
	require.Equal(t, 1, a.Attempts)
	view, err := s.breakers().Read(t.Context(), "host")
	require.NoError(t, err)
	require.Zero(t, view.State.Failures)
	require.False(t, view.State.Open)
}
