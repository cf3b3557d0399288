package activities_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
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

// breakers is one breaker in memory, which is silent while err is set.
type breakers struct {
	mu      sync.Mutex
	state   breaker.State
	err     error
	seen    map[string]bool
	reports []session.BreakerReport
	leases  int
}

func (b *breakers) apply(given spec.Breaker, e breaker.Event) breaker.Answer {
	var effect breaker.Effect
	b.state, effect = breaker.Apply(b.state, given, e, time.Now().UTC(), 0)
	return breaker.Answer{Effect: effect, View: breaker.View{Name: given.Name, Settings: given, State: b.state}}
}

func (b *breakers) Read(_ context.Context, name string) (breaker.View, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return breaker.View{Name: name, State: b.state}, nil
}

func (b *breakers) Report(ctx context.Context, r session.BreakerReport) (breaker.Answer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := cmp.Or(b.err, ctx.Err()); err != nil {
		return breaker.Answer{}, err
	}
	b.reports = append(b.reports, r)
	if b.seen[r.ID] {
		return breaker.Answer{Effect: breaker.Ignored}, nil
	}
	if b.seen == nil {
		b.seen = map[string]bool{}
	}
	b.seen[r.ID] = true
	return b.apply(r.Breaker, r), nil
}

func (b *breakers) Acquire(_ context.Context, _ string, given spec.Breaker, holder string) (breaker.Answer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return breaker.Answer{}, b.err
	}
	answer := b.apply(given, breaker.AcquireRequest{Holder: holder})
	if answer.Effect == breaker.Leased {
		b.leases++
	}
	return answer, nil
}

func (b *breakers) Renew(_ context.Context, _ string, given spec.Breaker, holder string) (breaker.Answer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.apply(given, breaker.RenewRequest{Holder: holder}), b.err
}

func open(d time.Duration) breaker.State {
	return breaker.State{Open: true, OpenUntil: time.Now().UTC().Add(d), Generation: 1, Trips: 1, Failures: 5}
}

func TestSuccessIsReportedWhereItMatters(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	b := &breakers{state: breaker.State{Failures: 3}}
	d.breakers = b
	_, err := d.round()
	require.NoError(t, err)
	require.Len(t, b.reports, 1)
	require.Zero(t, b.state.Failures)

	d = newDesk(t)
	quiet := &breakers{}
	d.breakers = quiet
	_, err = d.round()
	require.NoError(t, err)
	require.Empty(t, quiet.reports)
}

func final(c failures.Category) func(context.Context, session.Job) (session.Outcome, error) {
	return func(context.Context, session.Job) (session.Outcome, error) {
		f := failures.Failf(c, "no good")
		f.Final = true
		return session.Outcome{}, f
	}
}

func TestOutcomeThatCannotBeReportedTravelsWithTheSession(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	b := &breakers{err: errors.New("nobody answers")}
	d.breakers, d.agents.run = b, final(failures.Timeout)
	_, err := d.round()
	var failure activities.RoundFailure
	require.NoError(t, requireType(t, err, session.UnrecoverableError).Details(&failure))
	require.NotNil(t, failure.Unreported)

	d = newDesk(t)
	d.breakers = b
	b.state.Failures = 2
	result, err := d.round()
	require.NoError(t, err)
	require.NotNil(t, result.Unreported)
	require.Nil(t, d.record().Rounds[0].Result.Unreported, "the record is not the place for it")

	reports := &activities.Reports{Breakers: b}
	var left []session.BreakerReport
	d.execute(reports.Report, []session.BreakerReport{*failure.Unreported}, &left)
	require.Len(t, left, 1)
	b.err = nil
	var none []session.BreakerReport
	d.execute(reports.Report, []session.BreakerReport{*failure.Unreported}, &none)
	require.Empty(t, none)
	require.Equal(t, 3, b.state.Failures)
}

func (d *desk) waits(b activities.Breakers) *activities.BreakerWaits {
	return &activities.BreakerWaits{Breakers: b, Clock: time.Now, Logger: slog.New(slog.DiscardHandler)}
}

// TestWaitThatNobodyWantsTakesNoLease: its session has ended it, and the activity has yet to
// hear of that.
func TestWaitThatNobodyWantsTakesNoLease(t *testing.T) {
	t.Parallel()
	b := &breakers{state: open(-time.Second)}
	waits := newDesk(t).waits(b)
	waits.Heartbeats = &beats{answer: activities.ErrUnwanted}
	_, err := await(waits, make(chan struct{}))
	requireType(t, err, session.HandedOver)
	require.Zero(t, b.leases)
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
