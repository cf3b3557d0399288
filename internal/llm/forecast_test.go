package llm

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/cost"
)

func TestForecast(t *testing.T) {
	t.Parallel()
	prices := &cost.Prices{Input: 3e9, Output: 15e9, CacheRead: 3e8, CacheWrite: 3.75e9}
	for name, c := range map[string]struct {
		f           forecast
		want, least cost.Amount
		estimate    cost.Usage
	}{
		"the first call: bytes, and a quarter of them": {
			forecast{fresh: 4000, total: 4000, maxOutput: 8192},
			cost.Amount{Tokens: 12192},
			cost.Amount{Tokens: 1016},
			cost.Usage{InputTokens: 1000, OutputTokens: 1024},
		},
		"a later call: what was counted, and what was appended": {
			forecast{counted: 5000, fresh: 401, total: 20000, maxOutput: 512},
			cost.Amount{Tokens: 5913},
			cost.Amount{Tokens: 5117},
			cost.Usage{InputTokens: 5101, OutputTokens: 512},
		},
		"money: the dearest kind at most, the cache by the best guess": {
			forecast{counted: 1_000_000, cached: 900_000, caches: true, total: 9_000_000, maxOutput: 1_000_000, prices: prices},
			cost.Amount{Tokens: 2_000_000, USD: 18_750_000_000},
			cost.Amount{Tokens: 1_000_016, USD: 270_000_000 + 375_000_000 + 240_000},
			cost.Usage{CacheReadTokens: 900_000, CacheWriteTokens: 100_000, OutputTokens: 1024, CostUSD: 660_360_000},
		},
		"what was learned: a third of a token for a byte": {
			forecast{fresh: 6000, total: 6000, maxOutput: 100, learned: block / 3},
			cost.Amount{Tokens: 6100},
			cost.Amount{Tokens: 2016},
			cost.Usage{InputTokens: 2000, OutputTokens: 100},
		},
		"what was taken out is guessed to be gone, but not counted on": {
			forecast{counted: 5000, removed: 8000, total: 40000, maxOutput: 100},
			cost.Amount{Tokens: 5100},
			cost.Amount{Tokens: 3016},
			cost.Usage{InputTokens: 3000, OutputTokens: 100},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, c.f.want())
			require.Equal(t, c.least, c.f.least())
			require.Equal(t, c.estimate, c.f.estimate())
		})
	}
}

// TestForecastProperties tries what no table would.
func TestForecastProperties(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	between := func(least, most int64) int64 { return least + random.Int64N(most-least+1) }
	for range 20_000 {
		f := forecast{
			counted: between(0, 300_000), fresh: between(0, 300_000), maxOutput: between(1, 64_000), caches: random.IntN(2) == 0,
		}
		f.cached, f.removed = between(0, f.counted), between(0, 2*f.counted)
		f.total = f.counted + f.fresh + between(0, 1_000_000)
		f.learned = between(0, block)
		if random.IntN(4) > 0 {
			f.prices = &cost.Prices{
				Input: cost.USD(between(0, 5e9)), Output: cost.USD(between(0, 25e9)),
				CacheRead: cost.USD(between(0, 5e9)), CacheWrite: cost.USD(between(0, 6e9)),
			}
		}
		want, least := f.want(), f.least()
		require.LessOrEqual(t, least.Tokens, want.Tokens, "%+v", f)
		require.LessOrEqual(t, least.USD, want.USD, "%+v", f)
		require.LessOrEqual(t, f.guess(), f.bound(), "%+v", f)
		require.Equal(t, f.maxOutput, f.output(want), "all of it, if all is granted: %+v", f)

		granted := cost.Amount{Tokens: between(least.Tokens, want.Tokens), USD: cost.USD(between(int64(least.USD), int64(want.USD)))}
		output := f.output(granted)
		useful := min(leastOutput, f.maxOutput)
		require.GreaterOrEqual(t, output, useful, "%+v", f)
		require.LessOrEqual(t, output, f.maxOutput, "%+v", f)
		if likely := f.estimated(output).Amount(); output > useful {
			require.LessOrEqual(t, likely.Tokens, granted.Tokens, "%+v granted %+v", f, granted)
			require.LessOrEqual(t, likely.USD, granted.USD, "%+v granted %+v", f, granted)
		}
		more := granted.Add(cost.Amount{Tokens: between(0, 1000), USD: cost.USD(between(0, 1e9))})
		require.GreaterOrEqual(t, f.output(more), output, "%+v granted %+v, then %+v", f, granted, more)
	}
}

func TestScaleKeepsTheDearest(t *testing.T) {
	t.Parallel()
	var s Scale
	s.learn(100, 6000)
	s.learn(0, 6000)
	s.learn(90, 6000)
	require.Equal(t, int64(69), s.tokens.Load())
	s.learn(1000, 6000)
	require.Equal(t, int64(683), s.tokens.Load())
}
