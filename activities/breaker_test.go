package activities_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// breakers are those of the desk's store. While err is set, they take no report.
type breakers struct {
	*breaker.Breakers
	d *desk

	mu  sync.Mutex
	err error
}

func (b *breakers) Report(ctx context.Context, r session.BreakerReport) (breaker.Answer, error) {
	b.mu.Lock()
	err := b.err
	b.err = nil
	b.mu.Unlock()
	if err != nil {
		return breaker.Answer{}, err
	}
	return b.Breakers.Report(ctx, r)
}

// now is the breaker of the desk's agent.
func (b *breakers) now() session.BreakerStatus {
	b.d.t.Helper()
	s, err := b.Read(b.d.t.Context(), "a")
	require.NoError(b.d.t, err)
	return s
}

// set changes the breaker.
func (b *breakers) set(change func(*session.BreakerStatus)) {
	b.d.t.Helper()
	require.NoError(b.d.t, b.State.ChangeBreaker(b.d.t.Context(), "a", "",
		func(s session.BreakerStatus, _ time.Time) (session.BreakerStatus, bool) {
			change(&s)
			return s, true
		}))
}

// open opens the breaker for some time, which may be over.
func (b *breakers) open(d time.Duration) {
	b.d.t.Helper()
	b.set(func(s *session.BreakerStatus) {
		s.State, s.OpenUntil, s.Generation, s.Trips, s.Failures = session.BreakerIsOpen, new(time.Now().UTC().Add(d)), 1, 1, 5
	})
}

// withBreaker gives the agent of the desk a breaker.
func (d *desk) withBreaker() *breakers {
	b := &breakers{Breakers: &breaker.Breakers{State: d.store.State}, d: d}
	d.breakers = b
	return b
}

func TestSuccessIsReportedWhereItMatters(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	b := d.withBreaker()
	b.set(func(s *session.BreakerStatus) { s.Failures = 3 })
	_, err := d.round()
	require.NoError(t, err)
	require.Zero(t, b.now().Failures)

	d = newDesk(t)
	quiet := d.withBreaker()
	_, err = d.round()
	require.NoError(t, err)
	require.Equal(t, session.NewBreaker("a"), quiet.now(), "nothing is written")
}

func final(c failures.Category) func(context.Context, session.Job) (session.Outcome, error) {
	return func(context.Context, session.Job) (session.Outcome, error) {
		f := failures.Failf(c, "no good")
		f.Final = true
		return session.Outcome{}, f
	}
}

// TestOutcomeIsReportedWhenTheStoreIsBack: a round ends when its breaker knows how.
func TestOutcomeIsReportedWhenTheStoreIsBack(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	b := d.withBreaker()
	b.err, d.agents.run = errors.New("the database is away"), final(failures.Timeout)
	_, err := d.round()
	requireType(t, err, session.UnrecoverableError)
	require.Equal(t, 1, b.now().Failures)
}

// TestWaitThatNobodyWantsTakesNoLease: its session has ended it, and the activity has yet to
// hear of that.
func TestWaitThatNobodyWantsTakesNoLease(t *testing.T) {
	t.Parallel()
	b := newDesk(t).withBreaker()
	b.open(-time.Second)
	waits := &activities.BreakerWaits{Breakers: b, Clock: time.Now, Heartbeats: &beats{answer: activities.ErrUnwanted}}
	_, err := await(waits, make(chan struct{}))
	requireType(t, err, session.HandedOver)
	require.Empty(t, b.now().Probes)
}

func await(waits *activities.BreakerWaits, stop chan struct{}) (activities.Awaited, error) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetWorkerStopChannel(stop)
	env.RegisterActivity(waits.Await)
	var awaited activities.Awaited
	value, err := env.ExecuteActivity(waits.Await, activities.AwaitInput{
		AssignmentID: spec.AssignmentID{Phase: "build", Persona: "dev"}, Breaker: spec.Breaker{}.For("a"),
		Wait: session.BreakerWait{Breaker: "a", Why: "down"},
	})
	if err != nil {
		return awaited, err
	}
	return awaited, value.Get(&awaited)
}
