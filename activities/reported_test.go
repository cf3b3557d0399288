package activities_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// TestReportedUsageIsSpentThoughTheWorkerIsKilled kills a program's worker three times.
// What was reported, in the journal or in the program's files, is spent in full and as
// it was, and the budget holds with it.
func TestReportedUsageIsSpentThoughTheWorkerIsKilled(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.team.Budget.Tokens = 60_000
	d.admit()
	d.agents.conversation = spec.InJournal // it books by itself
	used := cost.Usage{InputTokens: 3000, CacheReadTokens: 5000, OutputTokens: 1000}
	next := cost.Usage{InputTokens: 9000, OutputTokens: 1000}
	begin := func(ctx context.Context, job session.Job) session.Call {
		call, err := job.Calls.Begin(ctx, session.CallPlan{Agent: job.Agent, Estimate: cost.Usage{InputTokens: 20_000}})
		require.NoError(t, err)
		return call
	}
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		call := begin(ctx, job)
		require.NoError(t, call.Report(cost.Usage{InputTokens: 3000}, next))
		require.NoError(t, call.Report(used, next))
		return session.Outcome{}, errKilled
	}
	_, err := d.round(activities.Heartbeat{})
	require.Error(t, err)
	require.Equal(t, used, d.journal().Open()[0].Reported, "it is in the store while the program works")

	more := used.Add(cost.Usage{OutputTokens: 2000})
	d.agents.reported = &more
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		require.Equal(t, more, d.ledger().Usage(), "the files tell more")
		require.Equal(t, cost.Usage{InputTokens: 12_000}, d.ledger().Unsettled())
		begin(ctx, job)
		return session.Outcome{}, errKilled // before it was told anything
	}
	_, err = d.round(activities.Heartbeat{})
	require.Error(t, err)

	less := cost.Usage{}
	d.agents.reported = &less
	var stopped error
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		require.Equal(t, more, d.ledger().Usage())
		require.Equal(t, cost.Usage{InputTokens: 24_000}, d.ledger().Unsettled(), "each request that was under way")
		call := begin(ctx, job)
		for used := (cost.Usage{}); stopped == nil; {
			used.OutputTokens += 5000
			stopped = call.Report(used, next)
		}
		return session.Outcome{}, stopped
	}
	_, err = d.round(activities.Heartbeat{})
	require.ErrorContains(t, err, "token_budget")
	require.ErrorContains(t, stopped, "the attempt has used 30000 tokens", "11000 are spent and 24000 estimated, of 60000")
}

// A store whose journal takes every second entry and says that it has not: of the
// others, too, nobody knows.
type unsure struct {
	activities.Ledgers
	appends int
}

func (u *unsure) AppendEntry(key session.Key, id spec.AssignmentID, e budget.Entry) error {
	u.appends++
	switch u.appends % 4 {
	case 2:
		return errors.Join(errors.New("the answer is lost"), u.Ledgers.AppendEntry(key, id, e))
	case 3:
		return errors.New("the disk is full")
	}
	return u.Ledgers.AppendEntry(key, id, e)
}

func TestReportsThatTheStoreCannotTakeComeLater(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.agents.conversation = spec.InJournal
	d.ledgers = &unsure{Ledgers: d.store}
	total := cost.Usage{}
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		call, err := job.Calls.Begin(ctx, session.CallPlan{Agent: job.Agent, Want: cost.Amount{Tokens: 1000}, Least: cost.Amount{Tokens: 1}, Estimate: cost.Usage{InputTokens: 7}})
		require.NoError(t, err)
		for range 5 {
			total.OutputTokens += 10
			require.NoError(t, call.Report(total, cost.Usage{InputTokens: 1}))
		}
		out, err := leave("a.txt", "x")(ctx, job)
		return out, errors.Join(err, call.Unsettle(ctx, total, cost.Usage{InputTokens: 3}))
	}
	_, err := d.round(activities.Heartbeat{})
	require.NoError(t, err)
	j := d.journal()
	require.Equal(t, total, j.Spent())
	require.Equal(t, cost.Usage{InputTokens: 3}, j.Unsettled()[0].Estimate)
	require.Len(t, j.Calls(), 1)
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
	d.agents.conversation = spec.InJournal
	before := time.Now()
	for range 2 {
		d.agents.run = killed
		_, err := d.round(activities.Heartbeat{})
		require.Error(t, err)
	}
	d.agents.run = func(_ context.Context, job session.Job) (session.Outcome, error) {
		begun = append(begun, job.Begun)
		return session.Outcome{}, failures.Failf(failures.TestFailure, "no")
	}
	_, err := d.round(activities.Heartbeat{})
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
	result, err := d.round(activities.Heartbeat{})
	require.NoError(t, err)
	require.False(t, result.StartedAt.Before(report.EndedAt))
}
