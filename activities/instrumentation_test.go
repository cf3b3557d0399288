package activities_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// witness is an observer that remembers what it heard.
type witness struct{ heard []string }

func (w *witness) hear(format string, args ...any) {
	w.heard = append(w.heard, fmt.Sprintf(format, args...))
}

func (w *witness) SessionStarted(name string)                    { w.hear("%s started", name) }
func (w *witness) SessionEnded(name string, state session.State) { w.hear("%s %s", name, state) }
func (w *witness) HelpRequested(c failures.Category)             { w.hear("help with %s requested", c) }

func (w *witness) AssignmentEnded(name string, state session.State) {
	w.hear("assignment of %s %s", name, state)
}

func (w *witness) RoundEnded(agent string, c failures.Category) {
	w.hear("round of %s ended: %q", agent, c)
}
func (w *witness) WorkerLost(agent string)   { w.hear("worker of %s lost", agent) }
func (w *witness) StoreWaited(time.Duration) { w.hear("store waited") }
func (w *witness) ExternalCalled(whom activities.ExternalSystem, outcome string) {
	w.hear("call of %s: %s", whom, outcome)
}
func (w *witness) CallReplayed(c activities.CallInfo) { w.hear("call of %s replayed", c.Agent) }
func (w *witness) BudgetFraction(name, scope string, f float64) {
	w.hear("%s %s %.2f", name, scope, f)
}

func (w *witness) AttemptBegun(ctx context.Context, a activities.AttemptInfo) (context.Context, func(activities.AttemptOutcome)) {
	return ctx, func(end activities.AttemptOutcome) {
		w.hear("attempt %d of %s ended: %q, interrupted %t", a.Attempt, a.AssignmentID, end.Category, end.Interrupted)
	}
}

func (w *witness) CallBegun(ctx context.Context, c activities.CallInfo) (context.Context, func(activities.CallOutcome)) {
	return ctx, func(end activities.CallOutcome) {
		w.hear("call of %s to %s ended: %q, %d tokens, stored %t", c.Agent, c.Model, end.Category, end.Usage.Tokens(), end.Stored)
	}
}

// call pays for a turn, or finds it paid for. It abandons the turn at a cost where
// it is to fail.
func call(ctx context.Context, job session.Job, turn int, fails bool) error {
	request := spec.Digest(fmt.Sprintf("%064x", turn))
	if stored, err := job.Calls.Stored(ctx, request); stored != nil || err != nil {
		return err
	}
	want := cost.Amount{Tokens: 20}
	call, err := job.Calls.Begin(ctx, session.CallPlan{
		Agent: job.Agent, Model: "m", Request: request, Want: want, Least: want,
		Estimate: cost.Usage{OutputTokens: 20},
	})
	if err != nil {
		return err
	}
	if fails {
		return call.Abandon(ctx, cost.Usage{InputTokens: 3})
	}
	return call.Settle(ctx, []byte("answer"), cost.Usage{OutputTokens: 10})
}

func TestTheObserverHearsOfEveryCallOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	w := &witness{}
	d.observer = w
	d.agents.conversation = spec.InCalls
	d.team.Budget.Tokens = 100
	d.admit()
	ctx, end := context.WithCancel(t.Context())
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		require.NoError(t, call(ctx, job, 1, false))
		end()
		<-ctx.Done()
		return session.Outcome{}, context.Cause(ctx)
	}
	_, err := d.round(func(env *testsuite.TestActivityEnvironment) {
		env.SetWorkerOptions(worker.Options{BackgroundActivityContext: ctx})
	})
	require.Error(t, err)
	require.Equal(t, []string{
		"t session 0.00", "t session 0.10", `call of a to m ended: "", 10 tokens, stored true`,
		`attempt 1 of build/dev ended: "", interrupted true`,
	}, w.heard)

	w.heard = nil
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		require.NoError(t, call(ctx, job, 1, false))
		require.NoError(t, call(ctx, job, 2, true)) // and gets over it
		require.NoError(t, call(ctx, job, 3, true))
		return session.Outcome{}, failures.Failf(failures.APIError, "down")
	}
	_, err = d.round()
	require.Error(t, err)
	require.Equal(t, []string{
		"t session 0.10", "call of a replayed", "t session 0.13",
		`call of a to m ended: "unknown", 3 tokens, stored false`, "t session 0.16",
		`call of a to m ended: "api_error", 3 tokens, stored false`,
		`attempt 1 of build/dev ended: "api_error", interrupted false`,
	}, w.heard)

	w.heard = nil
	d.agents.run = leave("a.txt", "x")
	_, err = d.round()
	require.NoError(t, err)
	require.Equal(t, []string{
		"t session 0.16", `attempt 2 of build/dev ended: "", interrupted false`, `round of a ended: ""`, "assignment of t completed",
	}, w.heard)
}
