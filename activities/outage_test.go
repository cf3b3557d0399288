package activities_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// patient gives the desk's team a patience with providers.
func (d *desk) patient(patience time.Duration, then spec.OnOutage) {
	d.t.Helper()
	p := textfmt.Duration(patience)
	d.team.Retry.Patience, d.team.Retry.OnOutage = &p, then
	d.admit()
}

// limited fails as a provider that asks for a wait.
func limited(wait time.Duration) func(context.Context, session.Job) (session.Outcome, error) {
	return func(_ context.Context, job session.Job) (session.Outcome, error) {
		f := failures.Failf(failures.RateLimited, "slow down")
		f.RetryAfter = textfmt.Duration(wait)
		return session.Outcome{Usage: cost.Usage{OutputTokens: 1}},
			errors.Join(os.WriteFile(filepath.Join(job.Tree, "half.txt"), []byte("x"), 0o600), f)
	}
}

// TestPatienceEndsTheActivityOrTheRound.
func TestPatienceEndsTheActivityOrTheRound(t *testing.T) {
	t.Parallel()
	t.Run("wait", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.patient(time.Millisecond, spec.OutageWait)
		d.agents.run = fail(failures.APIError)
		_, err := d.round()
		app := requireType(t, err, session.ProviderOutage)
		require.True(t, app.NonRetryable())
		var stop activities.OutageStop
		require.NoError(t, app.Details(&stop))
		require.Equal(t, failures.APIError, stop.Failure.Category)
		require.Empty(t, d.record().Rounds[0].Attempts)

		d.earlier++
		d.agents.run = leave("a.txt", "x")
		in := d.roundInput()
		in.Outage = activities.OutageNoticed
		result, err := d.roundOf(in)
		require.NoError(t, err)
		require.Equal(t, 1, result.Attempts)
	})
	t.Run("fail", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.patient(time.Millisecond, spec.OutageFail)
		d.agents.run = limited(20 * time.Millisecond)
		_, err := d.round()
		app := requireType(t, err, session.UnrecoverableError)
		var report activities.RoundFailure
		require.NoError(t, app.Details(&report))
		require.Len(t, report.Attempts, 1)
		require.NotZero(t, report.Failure.RetryAfter, "for the next round")
		require.True(t, d.record().Rounds[0].GaveUp)
	})
}

// TestHostsTroubleIsWaitedOut: it costs no attempt, and says nothing about the agent.
func TestHostsTroubleIsWaitedOut(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.patient(time.Hour, spec.OutageWait)
	b := d.withBreaker()
	n := 0
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		if n++; n <= 2 {
			o := d.record().Rounds[0].Outage
			require.Equal(t, n > 1, o != nil && strings.Contains(o.String(), "for the machine"))
			return fail(failures.ResourceError)(ctx, job)
		}
		return leave("a.txt", "x")(ctx, job)
	}
	result, err := d.round()
	require.NoError(t, err)
	require.Equal(t, 1, result.Attempts)
	require.Equal(t, 3, n)
	require.Zero(t, b.now().Failures)
}

// changeOutage changes the outage in the record of the one assignment, in which it waits.
func (d *desk) changeOutage(change func(*session.Outage)) {
	d.t.Helper()
	d.changeRound(func(r *session.RoundRecord) { change(r.Outage) })
}

// news hears what a round tells its session, from the call on that succeeds.
type news struct {
	mu    sync.Mutex
	deaf  int
	heard []activities.OutageNews
}

func (n *news) Outage(_ context.Context, in activities.OutageNews) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.deaf--; n.deaf >= 0 {
		return errKilled
	}
	n.heard = append(n.heard, in)
	return nil
}

// TestSessionKnowsOfAWaitWithoutAWorker before the slot is given back; once, until it is over.
func TestSessionKnowsOfAWaitWithoutAWorker(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.holdSlot = 200 * time.Millisecond
	d.patient(time.Hour, spec.OutageWait)
	n := &news{deaf: 1}
	d.signals = n
	d.agents.run = limited(4 * time.Second)
	_, err := d.round()
	requireType(t, err, session.RecoverableError)
	require.Len(t, n.heard, 1)
	require.Equal(t, spec.AssignmentID{Phase: "build", Persona: "dev"}, n.heard[0].AssignmentID)
	require.Equal(t, int64(1), n.heard[0].Total.OutputTokens)
	require.Equal(t, session.AttemptFailure{Category: failures.RateLimited, Message: "slow down"}, n.heard[0].Failure)
	_, err = d.round()
	requireType(t, err, session.RecoverableError)
	require.Len(t, n.heard, 1)

	d.changeOutage(func(o *session.Outage) { o.Until, o.SignalledAt = time.Now(), o.SignalledAt.Add(-time.Hour) })
	d.agents.run = fail(failures.APIError)
	_, err = d.round()
	requireType(t, err, session.RecoverableError)
	require.Len(t, n.heard, 2, "it is told of another cause")
	require.Equal(t, failures.APIError, n.heard[1].Failure.Category)
	d.changeOutage(func(o *session.Outage) { o.Until = time.Now() })
	d.agents.run = limited(4 * time.Second)
	_, err = d.round()
	requireType(t, err, session.RecoverableError)
	require.Len(t, n.heard, 2, "but not of each change at once")

	d.agents.run = fail(failures.TestFailure) // which is progress
	require.Eventually(t, func() bool {
		_, err = d.round()
		return len(d.record().Rounds[0].Attempts) == 1
	}, time.Minute, 50*time.Millisecond)
	require.Len(t, n.heard, 3)
	require.True(t, n.heard[2].Over)
}

// TestProcessesThatCannotBeEndedAreWaitedFor: no agent is started beside them, no attempt is
// used up, and what they have written meanwhile is not taken for the attempt's work.
func TestProcessesThatCannotBeEndedAreWaitedFor(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.holdSlot = time.Millisecond
	d.patient(time.Hour, spec.OutageWait)
	d.agents.survives = failures.Failf(failures.ResourceError, "process 7 (sh) cannot be killed")
	dir, err := d.workDirs.Make(d.key(), spec.AssignmentID{Phase: "build", Persona: "dev"})
	require.NoError(t, err)
	_, err = d.round()
	requireType(t, err, session.RecoverableError)
	log := d.record().Rounds[0].RoundLog
	require.Empty(t, log.Attempts)
	require.Contains(t, log.Outage.Failure.Message, "process 7 (sh)")
	require.Empty(t, d.agents.runs)

	require.NoError(t, os.WriteFile(filepath.Join(dir.Tree, "late.txt"), []byte("x"), 0o600))
	d.agents.survives = nil
	var result session.RoundResult
	require.Eventually(t, func() bool {
		result, err = d.round()
		return err == nil
	}, time.Minute, 50*time.Millisecond)
	require.Equal(t, 1, result.Attempts)
	require.Equal(t, 1, result.Files, "the work's own")
	require.Equal(t, failures.FromInput, result.From)
}

// TestNothingIsAtWorkInANewDirectory: the processes of the host are looked at only where
// something may have been at work before.
func TestNothingIsAtWorkInANewDirectory(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.agents.survives = failures.Failf(failures.ResourceError, "process 7 (sh) cannot be killed")
	d.agents.run = fail(failures.TestFailure)
	_, err := d.round()
	requireType(t, err, session.RecoverableError)
	_, err = d.round()
	requireType(t, err, session.RecoverableError)
	attempts := d.record().Rounds[0].Attempts
	require.Len(t, attempts, 2)
	require.Equal(t, failures.TestFailure, attempts[0].Failure.Category)
	require.Contains(t, attempts[1].Failure.Message, "process 7 (sh)")
}
