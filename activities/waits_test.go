package activities_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/store/state"
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

// withDay gives the desk's team a daily budget, and its attempts a reserve.
func withDay(t *testing.T, limit int64) *desk {
	t.Helper()
	d := newDesk(t)
	d.team.Budget.Daily = spec.Cap{Tokens: limit}
	d.admit()
	d.agents.reserve = cost.Amount{Tokens: 60}
	return d
}

func TestASpentDayFailsTheAttempt(t *testing.T) {
	t.Parallel()
	d := withDay(t, 100)
	call := d.other(50)
	require.NoError(t, d.store.State.End(t.Context(), call, state.CallEnd{State: state.CallUnsettled}))
	_, err := d.round()
	require.ErrorContains(t, err, "the daily budget of team t is not sufficient: 50 of 100 tokens left, and the next call needs "+
		"60; "+
		"50 tokens of it are estimates of 1 unsettled call: maestro budget settle other "+call+" --write-off; the next day begins at")
	require.Zero(t, d.day().Reserved)
	require.Len(t, d.record().Rounds[0].Attempts, 1)
	require.Equal(t, failures.TokenBudget, d.record().Rounds[0].Attempts[0].Failure.Category)
}

// changing changes something after the first look at the budgets.
type changing struct {
	activities.State
	looks  int
	change func()
	// day replaces the day of the budgets, if it is set.
	day string
}

func (c *changing) Budgets(ctx context.Context, a state.Assignment, team string) ([]budget.Budget, error) {
	budgets, err := c.State.Budgets(ctx, a, team)
	if c.looks++; c.looks == 1 {
		c.change()
	}
	for i := range budgets {
		budgets[i].Day = cmp.Or(c.day, budgets[i].Day)
	}
	return budgets, err
}

func TestTheWaitForABudgetEndsWhenItCanPay(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(d *desk, c *changing, call string) error{
		"midnight": func(_ *desk, c *changing, _ string) error { c.day = "2100-01-01"; return nil },
		"a raise": func(d *desk, _ *changing, _ string) error {
			_, err := d.store.State.AddRaise(d.t.Context(), session.Key{}, budget.Raise{
				ID: "1", Scope: budget.DayScope, Team: "t", Added: cost.Amount{Tokens: 60},
			}, "cli")
			return err
		},
		"a return": func(d *desk, _ *changing, call string) error {
			return d.store.State.End(d.t.Context(), call, state.CallEnd{State: state.CallFailed})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := withDay(t, 100)
			call := d.other(100)
			watched := &changing{State: d.store.State}
			watched.change = func() { require.NoError(t, change(d, watched, call)) }
			execute(t, (&activities.BudgetWaits{State: watched}).Await, activities.AwaitBudgetInput{
				AssignmentID: d.dev().AssignmentID, Scope: budget.DayScope, Team: "t", Least: cost.Amount{Tokens: 60}, Date: d.day().Day,
			}, nil)
			require.GreaterOrEqual(t, watched.looks, 1, "the spent budget was waited for")
		})
	}
}

// breakers are those of the desk's store.
type breakers struct {
	*breaker.Breakers
	d *desk
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

// deafOnce are breakers that cannot take the first report.
type deafOnce struct {
	*breakers
	err error
}

func (b *deafOnce) Report(ctx context.Context, r session.BreakerReport) (breaker.Answer, error) {
	if err := b.err; err != nil {
		b.err = nil
		return breaker.Answer{}, err
	}
	return b.breakers.Report(ctx, r)
}

// TestOutcomeIsReportedWhenTheStoreIsBack: a round ends when its breaker knows how.
func TestOutcomeIsReportedWhenTheStoreIsBack(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	b := d.withBreaker()
	d.breakers = &deafOnce{b, errors.New("the database is away")}
	d.agents.run = func(context.Context, session.Job) (session.Outcome, error) {
		f := failures.Failf(failures.Timeout, "no good")
		f.Final = true
		return session.Outcome{}, f
	}
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
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(waits.Await)
	_, err := env.ExecuteActivity(waits.Await, activities.AwaitInput{
		AssignmentID: spec.AssignmentID{Phase: "build", Persona: "dev"}, Breaker: spec.Breaker{}.For("a"),
		Wait: session.BreakerWait{Breaker: "a", Why: "down"},
	})
	requireType(t, err, session.HandedOver)
	require.Empty(t, b.now().Probes)
}

// throughGateway has the desk's agent work through a gateway, with a breaker.
func throughGateway(t *testing.T, run func(calls session.CallBreaker) error) (*desk, *breakers) {
	d := newDesk(t)
	b := d.withBreaker()
	d.agents.gateway = []string{"p"}
	d.agents.run = func(_ context.Context, job session.Job) (session.Outcome, error) {
		return session.Outcome{}, run(job.Breaker)
	}
	return d, b
}

// TestEachCallOfAGatewayCounts: the fifth failure in a row opens the breaker, and that of the attempt is none more.
func TestEachCallOfAGatewayCounts(t *testing.T) {
	t.Parallel()
	down := failures.Failf(failures.APIError, "down")
	d, b := throughGateway(t, func(calls session.CallBreaker) error {
		for range 4 {
			calls.Report(down)
			require.Zero(t, calls.RetryAfter())
		}
		return down
	})
	_, err := d.round()
	requireType(t, err, session.RecoverableError)
	require.Equal(t, 4, b.now().Failures)
	d.agents.run = func(_ context.Context, job session.Job) (session.Outcome, error) {
		job.Breaker.Report(down)
		require.Positive(t, job.Breaker.RetryAfter())
		return session.Outcome{}, down
	}
	_, err = d.round()
	requireType(t, err, session.RecoverableError)
	require.Equal(t, session.BreakerIsOpen, b.now().State)
	require.Equal(t, 1, b.now().Trips)
}

// TestAProgramsOwnFailureSaysNothingOfItsProvider.
func TestAProgramsOwnFailureSaysNothingOfItsProvider(t *testing.T) {
	t.Parallel()
	for _, category := range []failures.Category{failures.Timeout, failures.Unknown, failures.APIError} {
		d, b := throughGateway(t, func(session.CallBreaker) error { return failures.Failf(category, "stuck") })
		b.set(func(s *session.BreakerStatus) { s.Failures = 3 })
		for range 3 {
			_, err := d.round()
			require.Error(t, err)
		}
		require.Equal(t, 3, b.now().Failures)
	}
}

// TestAnOpenBreakerHoldsCalls of an attempt that was at work before, but not those of a probe, whose first
// answer closes the breaker.
func TestAnOpenBreakerHoldsCalls(t *testing.T) {
	t.Parallel()
	var d *desk
	var b *breakers
	d, b = throughGateway(t, func(calls session.CallBreaker) error {
		require.Zero(t, calls.RetryAfter())
		for _, left := range []time.Duration{time.Hour, -time.Second} { // half-open, it is another's to probe
			b.open(left)
			require.Greater(t, calls.RetryAfter(), max(0, left-time.Minute))
		}
		return nil
	})
	_, err := d.round()
	requireType(t, err, session.RecoverableError) // it has done nothing
	require.Equal(t, session.BreakerIsOpen, b.now().State)

	d, b = throughGateway(t, func(calls session.CallBreaker) error {
		require.Zero(t, calls.RetryAfter())
		calls.Report(nil)
		require.Equal(t, session.BreakerClosed, b.now().State)
		require.Zero(t, calls.RetryAfter())
		return nil
	})
	b.open(-time.Second)
	_, err = d.round()
	requireType(t, err, session.RecoverableError) // it has done nothing
	require.Equal(t, int64(2), b.now().Generation)
}

// beats answers every report in the same way.
type beats struct {
	answer error
	n      atomic.Int32
}

func (b *beats) Beat(context.Context, activities.Heartbeat) error {
	b.n.Add(1)
	return b.answer
}

// TestExecutionThatIsGivenUp gives way while it waits, because the one in its place waits, too. At work it works on, and says so
// once however long that takes.
func TestExecutionThatIsGivenUp(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	lock, ok, err := d.store.Lock(t.Context(), d.key(), d.roundInput().AssignmentID)
	require.NoError(t, err)
	require.True(t, ok)
	defer lock.Unlock()
	d.heartbeats = &beats{answer: activities.ErrReplaced}
	_, err = d.round()
	requireType(t, err, session.HandedOver)
	require.Empty(t, d.agents.runs)
	require.Empty(t, d.record().Rounds)

	for _, answer := range []error{activities.ErrReplaced, errors.New("connection refused")} {
		t.Run(answer.Error(), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			told := &beats{answer: answer}
			d.heartbeats = told
			d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
				for told.n.Load() < 3 && ctx.Err() == nil {
					time.Sleep(10 * time.Millisecond)
				}
				if ctx.Err() != nil {
					return session.Outcome{}, context.Cause(ctx)
				}
				return leave("a.txt", "x")(ctx, job)
			}
			var lines bytes.Buffer
			d.logger = slog.New(slog.NewTextHandler(&lines, nil))
			result, err := d.round()
			require.NoError(t, err)
			require.Equal(t, 1, result.Attempts)
			require.Equal(t, 1, strings.Count(lines.String(), "level=WARN"), lines.String())
		})
	}
}
