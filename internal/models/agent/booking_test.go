package agent

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// callLog is a session.Calls that notes what it is told, and the call of its attempt.
type callLog struct {
	mu       sync.Mutex
	reserved []session.CallPlan
	settled  []cost.Usage
	// abandoned are the estimates of what is not known, known what is besides.
	abandoned, known []cost.Usage
	spending         []cost.Usage
	// estimates are those that came with reports.
	estimates []cost.Usage
	// refuse is how Begin fails, broke how Settle and Abandon do; cap is where
	// Spending does.
	refuse, broke error
	cap           int64
	// guess is what Begin sets aside where nobody has said how much.
	guess, granted cost.Amount
}

func (l *callLog) Begin(_ context.Context, plan session.CallPlan) (session.Call, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reserved = append(l.reserved, plan)
	l.granted = plan.Want
	if (plan.Want == cost.Amount{}) {
		l.granted = l.guess
	}
	return l, l.refuse
}

func (l *callLog) ID() string { return strconv.Itoa(len(l.reserved)) }

func (l *callLog) Granted() cost.Amount { return l.granted }

func (*callLog) Undelivered(string) {}

func (l *callLog) Settle(ctx context.Context, _ []byte, used cost.Usage) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil {
		return errors.New("settled in a way that books nothing")
	}
	l.settled = append(l.settled, used)
	return l.broke
}

func (l *callLog) Abandon(ctx context.Context, used cost.Usage) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if used != (cost.Usage{}) || ctx.Err() != nil {
		return errors.New("abandoned in a way that books nothing")
	}
	l.settled = append(l.settled, used) // it came to nothing
	return l.broke
}

func (l *callLog) Unsettle(ctx context.Context, used, estimate cost.Usage) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil {
		return errors.New("unsettled in a way that books nothing")
	}
	l.abandoned, l.known = append(l.abandoned, estimate), append(l.known, used)
	return l.broke
}

func (l *callLog) Report(used, estimate cost.Usage) error {
	l.mu.Lock()
	l.estimates = append(l.estimates, estimate)
	l.mu.Unlock()
	return l.Spending(used)
}

func (*callLog) Answered(session.CallAnswer) {}

func (l *callLog) Spending(used cost.Usage) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spending = append(l.spending, used)
	if l.cap > 0 && used.Tokens() > l.cap {
		return failures.Failf(failures.TokenBudget, "%d tokens are spent, and nothing is left", used.Tokens())
	}
	return nil
}

func (*callLog) Stored(context.Context, int, spec.Digest) (*session.StoredTurn, error) {
	return nil, nil
}
func (*callLog) KeepTools(context.Context, string, []byte) error  { return nil }
func (*callLog) Put(context.Context, []byte) (spec.Digest, error) { return "", nil }

func (*callLog) Get(context.Context, spec.Digest) ([]byte, error) { return nil, nil }

// paid is a command agent with a reserve and prices.
func (b *bench) paid(script string) *Set {
	return b.set(Config{Agents: map[string]Definition{"x": {
		Kind: KindCommand, Argv: []string{"/bin/sh", "-c", script},
		Reserve: spec.Cap{Tokens: 500, USD: 2_000_000_000}, Prices: &cost.Prices{Input: 3_000_000_000, Output: 15_000_000_000},
	}}})
}

func TestAttemptsAreBooked(t *testing.T) {
	t.Parallel()
	estimate := cost.Usage{OutputTokens: 500, CostUSD: 2_000_000_000}
	for _, c := range []struct {
		name, shell string
		settled     []cost.Usage
		abandoned   int
	}{
		{
			"what it says it used, at the definition's prices", `echo '{"usage":{"input_tokens":1000,"output_tokens":100}}' > $MAESTRO_RESULT`,
			[]cost.Usage{{InputTokens: 1000, OutputTokens: 100, CostUSD: 4_500_000}},
			0,
		},
		{
			"the cost that it says itself", `echo '{"usage":{"input_tokens":1000,"cost_usd":1}}' > $MAESTRO_RESULT`,
			[]cost.Usage{{InputTokens: 1000, CostUSD: 1_000_000_000}},
			0,
		},
		{
			"a failed attempt, too", `echo '{"usage":{"input_tokens":1000}}' > $MAESTRO_RESULT; exit 3`,
			[]cost.Usage{{InputTokens: 1000, CostUSD: 3_000_000}},
			0,
		},
		{"an attempt that used nothing", `true`, []cost.Usage{{}}, 0},
		{"an attempt that was cut off, and said nothing", `kill -9 $$`, nil, 1},
		{
			"an attempt that was cut off, and said something", `echo '{"usage":{"input_tokens":1000}}' > $MAESTRO_RESULT; kill -9 $$`,
			[]cost.Usage{{InputTokens: 1000, CostUSD: 3_000_000}},
			0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, calls := newBench(t), &callLog{}
			job := b.job()
			job.Calls = calls
			out, _ := b.paid(c.shell).Run(t.Context(), job)
			require.Equal(t, []session.CallPlan{{
				Agent: "x", Want: cost.Amount{Tokens: 500, USD: 2_000_000_000}, Least: cost.Amount{Tokens: 500, USD: 2_000_000_000},
				Estimate: estimate,
			}}, calls.reserved)
			require.Equal(t, c.settled, calls.settled)
			require.Len(t, calls.abandoned, c.abandoned)
			for _, u := range calls.abandoned { // of less than a minute of work
				require.Positive(t, u.CostUSD)
				require.Less(t, u.CostUSD, cost.USD(200_000_000), "what was set aside is no estimate")
				require.LessOrEqual(t, u.Tokens(), int64(500))
			}
			if len(c.settled) > 0 {
				require.Equal(t, c.settled[0], out.Usage)
			}
		})
	}
}

func TestAttemptThatCannotBePaidForIsNotStarted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	job := b.job()
	job.Calls = &callLog{refuse: failures.Failf(failures.TokenBudget, "nothing is left")}
	_, err := b.paid("touch started").Run(t.Context(), job)
	require.Equal(t, failures.TokenBudget, failure(t, err).Category)
	require.NoFileExists(t, b.path("started"))
}

// TestCancelledAttemptIsBooked: one that exits counts for what it said.
func TestCancelledAttemptIsBooked(t *testing.T) {
	t.Parallel()
	for script, settled := range map[string][]cost.Usage{
		"echo begun >&2; exec sleep 100": nil, "trap 'exit 0' TERM; echo begun >&2; while :; do sleep 0.02; done": {{}},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			b, calls := newBench(t), &callLog{}
			ctx, cancel := context.WithCancelCause(t.Context())
			job, stop := b.job(), errors.New("the session was cancelled")
			job.Calls = calls
			job.Progress = func(string) { cancel(stop) }
			_, err := b.paid(script).Run(ctx, job)
			require.ErrorIs(t, err, stop)
			require.Equal(t, settled, calls.settled)
			require.Len(t, calls.abandoned, 1-len(settled))
		})
	}
}

func TestBookingThatFailsFailsTheAttempt(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]failures.Category{"true": failures.ResourceError, "exit 1": failures.Unknown} {
		b := newBench(t)
		job := b.job()
		job.Calls = &callLog{broke: failures.Failf(failures.ResourceError, "the disk is full")}
		_, err := b.paid(script).Run(t.Context(), job)
		require.ErrorContains(t, err, "the disk is full")
		require.Equal(t, want, failure(t, err).Category, "the first cause stays first")
	}
}

func TestAgentWithoutReserveSetsNothingAside(t *testing.T) {
	t.Parallel()
	b, calls := newBench(t), &callLog{}
	job := b.job()
	job.Calls = calls
	_, err := b.shell(`echo '{"usage":{"input_tokens":5}}' > $MAESTRO_RESULT`).Run(t.Context(), job)
	require.NoError(t, err)
	require.Len(t, calls.reserved, 1)
	require.Zero(t, calls.reserved[0].Want)
	require.NotZero(t, calls.reserved[0].Estimate, "it counts for something if its worker dies")
	require.Equal(t, []cost.Usage{{InputTokens: 5}}, calls.settled)
}

func TestEstimateOfWhatNobodyKnowsStaysWithinWhatWasSetAside(t *testing.T) {
	t.Parallel()
	b, calls := newBench(t), &callLog{guess: cost.Amount{Tokens: 70, USD: 5}}
	job := b.job()
	job.Calls = calls
	_, err := b.shell("kill -9 $$").Run(t.Context(), job)
	require.Error(t, err)
	require.Len(t, calls.abandoned, 1)
	require.Equal(t, cost.Amount{Tokens: 70, USD: 5}, calls.abandoned[0].Amount())
}
