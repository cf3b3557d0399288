package agent

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// paid is a command agent with a reserve and prices.
func (b *bench) paid(script string) *Set {
	return b.set(Config{Agents: map[string]Definition{"x": {
		Kind: KindCommand, Argv: []string{"/bin/sh", "-c", script},
		Reserve: spec.Cap{Tokens: 500, USD: 2_000_000_000}, Prices: &cost.Prices{Input: 3_000_000_000, Output: 15_000_000_000},
	}}})
}

func TestAttemptsAreBooked(t *testing.T) {
	t.Parallel()
	reserve := cost.Amount{Tokens: 500, USD: 2_000_000_000}
	estimate := cost.Usage{OutputTokens: 500, CostUSD: 2_000_000_000}
	says := func(usage, then string) string { return "echo '{\"usage\":" + usage + "}' > $MAESTRO_RESULT; " + then }
	for name, c := range map[string]struct {
		shell string
		// settled is nil if nobody knows what the attempt used.
		settled *cost.Usage
	}{
		"what it says it used, at the definition's prices": {
			says(`{"input_tokens":1000,"output_tokens":100}`, ""),
			&cost.Usage{InputTokens: 1000, OutputTokens: 100, CostUSD: 4_500_000},
		},
		"the cost that it says itself": {
			says(`{"input_tokens":1000,"cost_usd":1}`, ""), &cost.Usage{InputTokens: 1000, CostUSD: 1_000_000_000},
		},
		"a failed attempt, too": {says(`{"input_tokens":1000}`, "exit 3"), &cost.Usage{InputTokens: 1000, CostUSD: 3_000_000}},
		"nothing":               {"true", &cost.Usage{}},
		"cut off, and nothing":  {"kill -9 $$", nil},
		"cut off":               {says(`{"input_tokens":1000}`, "kill -9 $$"), &cost.Usage{InputTokens: 1000, CostUSD: 3_000_000}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			out, _ := b.paid(c.shell).Run(t.Context(), b.job())
			require.Equal(t, []session.CallPlan{{
				Whole: true, Agent: "x", Want: reserve, Least: reserve, Estimate: estimate,
			}}, b.calls.Plans)
			if c.settled != nil {
				require.Equal(t, []cost.Usage{*c.settled}, b.calls.Each)
				require.Empty(t, b.calls.Ends)
				require.Equal(t, *c.settled, out.Usage)
				return
			}
			require.Empty(t, b.calls.Each)
			require.Len(t, b.calls.Ends, 1)
			u := b.calls.Ends[0].Estimate // of less than a minute of work
			require.Positive(t, u.CostUSD)
			require.Less(t, u.CostUSD, cost.USD(200_000_000), "what was set aside is no estimate")
			require.LessOrEqual(t, u.Tokens(), int64(500))
		})
	}
}

func TestAttemptThatCannotBePaidForIsNotStarted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.calls.Left = 0
	_, err := b.paid("touch started").Run(t.Context(), b.job())
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
			b := newBench(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			job, stop := b.job(), errors.New("the session was cancelled")
			job.Progress = func(string) { cancel(stop) }
			_, err := b.paid(script).Run(ctx, job)
			require.ErrorIs(t, err, stop)
			require.Equal(t, settled, b.calls.Each)
			require.Len(t, b.calls.Ends, 1-len(settled))
		})
	}
}

func TestBookingThatFailsFailsTheAttempt(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]failures.Category{"true": failures.ResourceError, "exit 1": failures.Unknown} {
		b := newBench(t)
		b.calls.Broke = failures.Failf(failures.ResourceError, "the disk is full")
		_, err := b.paid(script).Run(t.Context(), b.job())
		require.ErrorContains(t, err, "the disk is full")
		require.Equal(t, want, failure(t, err).Category, "the first cause stays first")
	}
}

func TestAgentWithoutReserveSetsNothingAside(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.done(b.shell(`echo '{"usage":{"input_tokens":5}}' > $MAESTRO_RESULT`), b.job())
	require.Len(t, b.calls.Plans, 1)
	require.Zero(t, b.calls.Plans[0].Want)
	require.NotZero(t, b.calls.Plans[0].Estimate, "it counts for something if its worker dies")
	require.Equal(t, []cost.Usage{{InputTokens: 5}}, b.calls.Each)
}

func TestEstimateOfWhatNobodyKnowsStaysWithinWhatWasSetAside(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.calls.Budget = func(session.CallPlan) (cost.Amount, error) { return cost.Amount{Tokens: 70, USD: 5}, nil }
	_, err := b.shell("kill -9 $$").Run(t.Context(), b.job())
	require.Error(t, err)
	require.Len(t, b.calls.Ends, 1)
	require.Equal(t, cost.Amount{Tokens: 70, USD: 5}, b.calls.Ends[0].Estimate.Amount())
}
