package activities_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// TestReportedUsageIsSpentThoughTheWorkerIsKilled kills a program's worker three times.
// What was reported, in the journal or in the program's files, is spent in full and as
// it was, and the budget holds with it.
func TestReportedUsageIsSpentThoughTheWorkerIsKilled(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.team.Budget.Tokens = 60_000
	d.admit()
	d.agents.conversation = spec.InCalls // it books by itself
	used := cost.Usage{InputTokens: 3000, CacheReadTokens: 5000, OutputTokens: 1000}
	next := cost.Usage{InputTokens: 9000, OutputTokens: 1000}
	begin := func(ctx context.Context, job session.Job) session.Call {
		call, err := job.Calls.Begin(ctx, session.CallPlan{Whole: true, Agent: job.Agent, Estimate: cost.Usage{InputTokens: 20_000}})
		require.NoError(t, err)
		return call
	}
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		call := begin(ctx, job)
		require.NoError(t, call.Report(cost.Usage{InputTokens: 3000}, next))
		require.NoError(t, call.Report(used, next))
		return session.Outcome{}, errKilled
	}
	_, err := d.round()
	require.Error(t, err)
	require.Equal(t, used, d.calls(state.CallBegun)[0].Usage, "it is in the store while the program works")

	more := used.Add(cost.Usage{OutputTokens: 2000})
	d.agents.reported = &more
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		require.Equal(t, more, d.costs().Usage, "the files tell more")
		require.Equal(t, cost.Amount{Tokens: 12_000}, d.costs().Unsettled.Amount)
		begin(ctx, job)
		return session.Outcome{}, errKilled // before it was told anything
	}
	_, err = d.round()
	require.Error(t, err)

	less := cost.Usage{}
	d.agents.reported = &less
	var stopped error
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		require.Equal(t, more, d.costs().Usage)
		require.Equal(t, cost.Amount{Tokens: 24_000}, d.costs().Unsettled.Amount, "each request that was under way")
		call := begin(ctx, job)
		for used := (cost.Usage{}); stopped == nil; {
			used.OutputTokens += 5000
			stopped = call.Report(used, next)
		}
		return session.Outcome{}, stopped
	}
	_, err = d.round()
	require.ErrorContains(t, err, "token_budget")
	require.ErrorContains(t, stopped, "the attempt has used 30000 tokens", "11000 are spent and 24000 estimated, of 60000")
}

// unsure is a state that does every second change and says that it has not: of the others, too, nobody knows.
type unsure struct {
	activities.State
	changes int
}

func (u *unsure) fail(change func() error) error {
	u.changes++
	switch u.changes % 4 {
	case 2:
		return errors.Join(errors.New("the answer is lost"), change())
	case 3:
		return errors.New("the disk is full")
	}
	return change()
}

func (u *unsure) Begin(ctx context.Context, n state.NewCall) (v budget.Verdict, err error) {
	err = u.fail(func() (err error) {
		v, err = u.State.Begin(ctx, n)
		return err
	})
	return v, err
}

func (u *unsure) End(ctx context.Context, call string, end state.CallEnd) error {
	return u.fail(func() error { return u.State.End(ctx, call, end) })
}

func (u *unsure) Report(ctx context.Context, call string, p state.Progress) (held cost.Amount, refused *budget.Budget,
	err error,
) {
	err = u.fail(func() (err error) {
		held, refused, err = u.State.Report(ctx, call, p)
		return err
	})
	return held, refused, err
}

func TestReportsThatTheStoreCannotTakeComeLater(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.agents.conversation = spec.InCalls
	d.state = &unsure{State: d.db()}
	total := cost.Usage{}
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		call, err := job.Calls.Begin(ctx, session.CallPlan{
			Whole: true, Agent: job.Agent, Want: cost.Amount{Tokens: 1000},
			Least: cost.Amount{Tokens: 1}, Estimate: cost.Usage{InputTokens: 7},
		})
		require.NoError(t, err)
		for range 5 {
			total.OutputTokens += 10
			require.NoError(t, call.Report(total, cost.Usage{InputTokens: 1}))
		}
		out, err := leave("a.txt", "x")(ctx, job)
		return out, errors.Join(err, call.Unsettle(ctx, total, cost.Usage{InputTokens: 3}))
	}
	_, err := d.round()
	require.NoError(t, err)
	require.Equal(t, total, d.costs().Usage)
	require.Len(t, d.calls(), 1)
	require.Equal(t, cost.Amount{Tokens: 3}, d.calls(state.CallUnsettled)[0].Estimated)
}

// TestAttemptThatIsResumedBeganWhenItBegan has the attempt's time and transcript go back
// to its first execution.
func TestAttemptThatIsResumedBeganWhenItBegan(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var begun []time.Time
	killed := func(_ context.Context, job session.Job) (session.Outcome, error) {
		begun = append(begun, job.Begun)
		return session.Outcome{}, errKilled
	}
	d.agents.conversation = spec.InCalls
	before := time.Now()
	for range 2 {
		d.agents.run = killed
		_, err := d.round()
		require.Error(t, err)
	}
	d.agents.run = func(_ context.Context, job session.Job) (session.Outcome, error) {
		begun = append(begun, job.Begun)
		return session.Outcome{}, failures.Failf(failures.TestFailure, "no")
	}
	_, err := d.round()
	require.Error(t, err)
	require.True(t, begun[0].IsZero(), "nobody has begun it before")
	require.False(t, begun[1].Before(before.Truncate(time.Millisecond)))
	require.True(t, begun[1].Equal(begun[2]))
	report := d.record().Rounds[0].Attempts[0]
	require.True(t, report.StartedAt.Equal(begun[1]))

	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		require.True(t, job.Begun.IsZero(), "it is another attempt")
		return leave("a.txt", "x")(ctx, job)
	}
	result, err := d.round()
	require.NoError(t, err)
	require.False(t, result.StartedAt.Before(report.EndedAt))
}
