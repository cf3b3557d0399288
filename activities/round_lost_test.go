package activities_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// lose has executions of the round end in the middle of the agent's work, without a
// word of how.
func (d *desk) lose(times int) {
	d.t.Helper()
	before := d.agents.run
	d.agents.run = func(context.Context, session.Job) (session.Outcome, error) { return session.Outcome{}, errKilled }
	for range times {
		_, err := d.round()
		require.ErrorContains(d.t, err, "killed")
	}
	d.agents.run = before
}

// TestOnlyExecutionsThatStartedTheAgentAreLost: those that are killed while they wait
// for the assignment's lock, however many, are not.
func TestOnlyExecutionsThatStartedTheAgentAreLost(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.lose(1)
	lock := d.lock()
	for range 6 {
		ctx, kill := context.WithCancel(t.Context())
		told := &beats{}
		waiting := *d
		waiting.heartbeats = told
		go func() {
			for told.n.Load() == 0 && t.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
			kill()
		}()
		_, err := waiting.round(func(env *testsuite.TestActivityEnvironment) {
			env.SetWorkerOptions(worker.Options{BackgroundActivityContext: ctx})
		})
		require.Error(t, err)
	}
	lock.Unlock()
	result, err := d.round()
	require.NoError(t, err)
	require.Equal(t, 1, result.Lost)
	require.False(t, d.record().Rounds[0].Started)
}

// TestOrderlyEndsAreNoLosses: whatever ends an execution that says so, the next one finds
// no lost worker.
func TestOrderlyEndsAreNoLosses(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, cause := range []error{activity.ErrActivityPaused, activity.ErrActivityReset, context.Canceled} {
		ctx, end := context.WithCancelCause(t.Context())
		d.agents.run = func(ctx context.Context, _ session.Job) (session.Outcome, error) {
			require.True(t, d.record().Rounds[0].Started, "noted before the agent starts")
			end(cause)
			<-ctx.Done()
			return session.Outcome{}, context.Cause(ctx)
		}
		_, err := d.round(func(env *testsuite.TestActivityEnvironment) {
			env.SetWorkerOptions(worker.Options{BackgroundActivityContext: ctx})
		})
		require.Error(t, err)
	}
	d.agents.run = fail(failures.TestFailure)
	_, err := d.round()
	requireType(t, err, session.RecoverableError)
	d.agents.run = leave("a.txt", "x")
	result, err := d.round()
	require.NoError(t, err)
	require.Zero(t, result.Lost)
	require.Equal(t, 2, result.Attempts)
}

// TestLossesAfterStoredAnswersAreForgiven: a conversation that gets further each time is not
// given up, though more workers are lost than may be in a row.
func TestLossesAfterStoredAnswersAreForgiven(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const losses = 7
	lost := 0
	c := &conversation{turns: losses + 1}
	c.die = func(at string) bool {
		now := lost < losses && at == fmt.Sprintf("%d settled", lost+1)
		if now {
			lost++
		}
		return now
	}
	d.converse(c)
	for range losses {
		_, err := d.round()
		require.ErrorContains(t, err, "killed")
	}
	result, err := d.round()
	require.NoError(t, err)
	require.Equal(t, losses, result.Lost)
	require.Equal(t, 1, result.Attempts)
	require.Len(t, c.paid, losses+1)
}

func TestStoppingWorkerHandsOverAndCountsNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	stop := make(chan struct{})
	d.agents.run = func(ctx context.Context, _ session.Job) (session.Outcome, error) {
		close(stop)
		<-ctx.Done()
		return session.Outcome{}, context.Cause(ctx)
	}
	_, err := d.round(func(env *testsuite.TestActivityEnvironment) {
		env.SetWorkerStopChannel(stop)
		env.SetWorkerOptions(worker.Options{})
	})
	requireType(t, err, session.HandedOver)
	r := d.record().Rounds[0]
	require.False(t, r.Started)
	require.Zero(t, r.Lost)
	require.Empty(t, r.Attempts)
}

// TestUnusableStoreIsWaitedFor: the finished work of an attempt is not lost to
// a store that cannot take it, and no attempt is used.
func TestUnusableStoreIsWaitedFor(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	failing := &flaky{Files: d.store.Content, failures: 2}
	rounds := &activities.Rounds{Files: failing, WorkDirs: d.workDirs, Sessions: d.store, State: d.db(), Agents: d.agents, Clock: time.Now}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(rounds.Run)
	value, err := env.ExecuteActivity(rounds.Run, activities.RoundInput{
		AssignmentID: spec.AssignmentID{Phase: "build", Persona: "dev"}, Round: 1, Rounds: 1, Head: d.head, Input: d.input,
	})
	require.NoError(t, err)
	var result session.RoundResult
	require.NoError(t, value.Get(&result))
	require.Len(t, d.agents.runs, 1, "what was paid for is not done again")
	require.Equal(t, 1, result.Attempts)
	require.Negative(t, failing.failures)
}

// flaky is a store that cannot be written for a while.
type flaky struct {
	activities.Files
	failures int
}

func (f *flaky) Collect(ctx context.Context, req session.Collect) (session.Collected, error) {
	if f.failures--; f.failures >= 0 {
		return session.Collected{}, errors.New("no space left on device")
	}
	return f.Files.Collect(ctx, req)
}

func TestForeignStoreIsRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	admissions := &activities.Admissions{Files: d.store.Content, Sessions: d.store, State: d.db(), SearchAttributes: none{}, Clock: time.Now}
	var a activities.Admission
	d.execute(admissions.Admit, activities.AdmitInput{Start: session.Start{Store: "another"}}, &a)
	require.Len(t, a.Problems, 1)
	require.Contains(t, a.Problems[0], "belongs to store another")
}

// slow is a store that does not answer before its caller's time is over.
type slow struct{ activities.Sessions }

func (slow) Checkpoint(context.Context, spec.Digest) (session.Checkpoint, error) {
	return session.Checkpoint{}, context.DeadlineExceeded
}

// TestSlowStoreIsTriedAgain: a boundary that has run out of time fails for now, not
// for good.
func TestSlowStoreIsTriedAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	boundaries := &activities.Boundaries{Files: d.store.Content, Sessions: slow{d.store}, State: d.db(), Clock: time.Now}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(boundaries.Advance)
	_, err := env.ExecuteActivity(boundaries.Advance, activities.AdvanceInput{Boundary: activities.Boundary{Status: session.Status{Checkpoint: d.head}}, Phase: "build"})
	require.False(t, requireType(t, err, session.StoreUnusable).NonRetryable())
}
