package wire

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
)

// rows are the lines of a file of testdata, with their columns.
func rows(t *testing.T, file string) (all [][]string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "#") {
			all = append(all, strings.Split(strings.TrimSuffix(line, "\n"), " | "))
		}
	}
	return all
}

// TestWhatReachesTheWeb of requests: a line has what does, if anything, and the request.
func TestWhatReachesTheWeb(t *testing.T) {
	t.Parallel()
	for _, row := range rows(t, "web.txt") {
		require.Equal(t, row[0], Web("", []byte(row[1])), row[1])
	}
	require.Equal(t, "model gemini-x-search", Web("gemini-x-search", nil))
}

// TestDialectsOfUsage reads a usage as the servers write it. A line has a name, the format, the tokens of the input, of the
// output, read from a cache, written to one, of these for an hour, and of reasoning, the cost in billionths of a dollar, what
// differs in it, and the answer.
func TestDialectsOfUsage(t *testing.T) {
	t.Parallel()
	for _, row := range rows(t, "usage.txt") {
		var want cost.Usage
		_, err := fmt.Sscan(row[2], &want.InputTokens, &want.OutputTokens, &want.CacheReadTokens, &want.CacheWriteTokens,
			&want.CacheWrite1hTokens, &want.ReasoningTokens)
		require.NoError(t, err)
		m := NewMeter(Format(row[1]), 1, "application/json")
		_, _ = m.Write([]byte("{" + row[5] + "}"))
		f := m.Facts()
		require.Equal(t, want, f.Usage, row[0])
		require.Equal(t, row[3], strconv.FormatInt(int64(f.Cost), 10), row[0])
		require.Equal(t, row[4], f.Differs, row[0])
		require.True(t, f.Counted, row[0])
	}
}

// TestOnlyTheBoundChanges of a request: a line has what is special in it, the API, the path, the bound,
// the request, and what is sent.
func TestOnlyTheBoundChanges(t *testing.T) {
	t.Parallel()
	for _, row := range rows(t, "bounds.txt") {
		to, ok := API(row[1]).Route(http.MethodPost, row[2])
		require.True(t, ok)
		most, err := strconv.ParseInt(row[3], 10, 64)
		require.NoError(t, err)
		q, err := ReadRequest(to, false, []byte(row[4]))
		require.NoError(t, err, row[0])
		got, _ := q.Body(most)
		require.JSONEq(t, row[5], string(got), row[0])
		if row[4] == row[5] {
			require.Equal(t, row[5], string(got), row[0])
		}
	}
}

// TestACountOfZeroIsNoCount: servers that do not count state it in each chunk. The content is estimated.
func TestACountOfZeroIsNoCount(t *testing.T) {
	t.Parallel()
	f := Forecast{Fresh: 400, Total: 400, MaxOutput: 1000}
	m := NewMeter(ChatCompletions, 1, "application/json")
	_, _ = m.Write([]byte(`{"choices":[{"index":0,"message":{"content":"forty bytes of content are ten tokens ."},"finish_reason":"stop"}],
		"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`))
	facts := m.Facts()
	require.False(t, facts.Counted)
	require.Equal(t, cost.Usage{InputTokens: 100, OutputTokens: 10}, f.Spent(facts))
}

func TestTheHigherCostCounts(t *testing.T) {
	t.Parallel()
	f := Forecast{Prices: &cost.Prices{Input: 1_000_000_000, Output: 1_000_000_000}, MaxOutput: 1000}
	for stated, c := range map[string]struct {
		booked  cost.USD
		differs string
	}{
		"": {1_000_000, ""}, "0.001": {1_000_000, ""}, "0.002": {2_000_000, "the provider says that it costs 0.002 USD"},
		"0.0005": {1_000_000, "by the prices in the worker file it costs 0.001 USD"}, "free": {1_000_000, ""}, "-1": {1_000_000, ""},
		"NaN": {1_000_000, ""},
	} {
		m := NewMeter(ChatCompletions, 1, "application/json")
		m.Header(http.Header{"X-Litellm-Response-Cost": {stated}})
		_, _ = m.Write([]byte(`{"choices":[{"index":0,"finish_reason":"stop"}],"usage":{"prompt_tokens":600,"completion_tokens":400}}`))
		facts := f.Checked(m.Facts())
		require.Equal(t, c.booked, f.Spent(facts).CostUSD, stated)
		require.Contains(t, facts.Differs, c.differs, stated)
		require.Equal(t, c.differs == "", facts.Differs == "", stated)
	}
}

func TestForecast(t *testing.T) {
	t.Parallel()
	prices := &cost.Prices{Input: 3e9, Output: 15e9, CacheRead: 3e8, CacheWrite: 3.75e9}
	for name, c := range map[string]struct {
		f           Forecast
		want, least cost.Amount
		estimate    cost.Usage
	}{
		"the first call: bytes, and a quarter of them": {
			Forecast{Fresh: 4000, Total: 4000, MaxOutput: 8192},
			cost.Amount{Tokens: 12192},
			cost.Amount{Tokens: 1016},
			cost.Usage{InputTokens: 1000, OutputTokens: 1024},
		},
		"a later call: what was counted, and what was appended": {
			Forecast{Counted: 5000, Fresh: 401, Total: 20000, MaxOutput: 512},
			cost.Amount{Tokens: 5913},
			cost.Amount{Tokens: 5117},
			cost.Usage{InputTokens: 5101, OutputTokens: 512},
		},
		"money: the dearest kind at most, the cache by the best guess": {
			Forecast{Counted: 1_000_000, Cached: 900_000, Caches: true, Total: 9_000_000, MaxOutput: 1_000_000, Prices: prices},
			cost.Amount{Tokens: 2_000_000, USD: 18_750_000_000},
			cost.Amount{Tokens: 1_000_016, USD: 270_000_000 + 375_000_000 + 240_000},
			cost.Usage{CacheReadTokens: 900_000, CacheWriteTokens: 100_000, OutputTokens: 1024, CostUSD: 660_360_000},
		},
		"what was Learned: a third of a token for a byte": {
			Forecast{Fresh: 6000, Total: 6000, MaxOutput: 100, Learned: block / 3},
			cost.Amount{Tokens: 6100},
			cost.Amount{Tokens: 2016},
			cost.Usage{InputTokens: 2000, OutputTokens: 100},
		},
		"what was taken out is guessed to be gone, but not counted on": {
			Forecast{Counted: 5000, Removed: 8000, Total: 40000, MaxOutput: 100},
			cost.Amount{Tokens: 5100},
			cost.Amount{Tokens: 3016},
			cost.Usage{InputTokens: 3000, OutputTokens: 100},
		},
	} {
		require.Equal(t, c.want, c.f.Want(), name)
		require.Equal(t, c.least, c.f.Least(), name)
		require.Equal(t, c.estimate, c.f.Estimate(), name)
	}
}

// TestACallIsNotMadeForLessThanTheProviderPermits, as with a budget for thinking.
func TestACallIsNotMadeForLessThanTheProviderPermits(t *testing.T) {
	t.Parallel()
	f := Forecast{Fresh: 40, Total: 40, MaxOutput: 9000, Floor: 5000}
	require.GreaterOrEqual(t, f.Least().Tokens, int64(5000))
	require.Equal(t, int64(5000), f.Output(cost.Amount{Tokens: 100}))
	f.Floor = 1 << 40
	require.Equal(t, int64(9000), f.Output(cost.Amount{Tokens: 100}))
}

// TestForecastProperties tries what no table would.
func TestForecastProperties(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	between := func(least, most int64) int64 { return least + random.Int64N(most-least+1) }
	for range 20_000 {
		f := Forecast{
			Counted: between(0, 300_000), Fresh: between(0, 300_000), MaxOutput: between(1, 64_000), Caches: random.IntN(2) == 0,
		}
		f.Cached, f.Removed = between(0, f.Counted), between(0, 2*f.Counted)
		f.Total = f.Counted + f.Fresh + between(0, 1_000_000)
		f.Learned = between(0, block)
		if random.IntN(3) == 0 {
			f.Elsewhere = between(0, 1_000_000)
		}
		if random.IntN(4) > 0 {
			f.Prices = &cost.Prices{
				Input: cost.USD(between(0, 5e9)), Output: cost.USD(between(0, 25e9)),
				CacheRead: cost.USD(between(0, 5e9)), CacheWrite: cost.USD(between(0, 6e9)), CacheWrite1h: cost.USD(between(0, 9e9)),
				WebSearch: cost.USD(between(0, 5e9)),
				When:      []cost.When{{Above: between(0, 600_000), Input: cost.USD(between(0, 9e9)), Output: cost.USD(between(0, 30e9))}},
			}
			f.HourCache, f.Searches = random.IntN(2) == 0, between(0, 9)
		}
		want, least := f.Want(), f.Least()
		require.LessOrEqual(t, least.Tokens, want.Tokens, "%+v", f)
		require.LessOrEqual(t, least.USD, want.USD, "%+v", f)
		require.LessOrEqual(t, f.Guess(), f.bound(), "%+v", f)
		require.Equal(t, f.MaxOutput, f.Output(want), "all of it, if all is granted: %+v", f)

		granted := cost.Amount{Tokens: between(least.Tokens, want.Tokens), USD: cost.USD(between(int64(least.USD), int64(want.USD)))}
		output := f.Output(granted)
		useful := min(LeastOutput, f.MaxOutput)
		require.GreaterOrEqual(t, output, useful, "%+v", f)
		require.LessOrEqual(t, output, f.MaxOutput, "%+v", f)
		if likely := f.Estimated(output).Amount(); output > useful {
			require.LessOrEqual(t, likely.Tokens, granted.Tokens, "%+v granted %+v", f, granted)
			require.LessOrEqual(t, likely.USD, granted.USD, "%+v granted %+v", f, granted)
		}
		more := granted.Add(cost.Amount{Tokens: between(0, 1000), USD: cost.USD(between(0, 1e9))})
		require.GreaterOrEqual(t, f.Output(more), output, "%+v granted %+v, then %+v", f, granted, more)
	}
}

func TestScaleKeepsTheDearest(t *testing.T) {
	t.Parallel()
	var s Scale
	s.Learn(100, 6000)
	s.Learn(0, 6000)
	s.Learn(90, 6000)
	require.Equal(t, int64(69), s.tokens.Load())
	s.Learn(1000, 6000)
	require.Equal(t, int64(683), s.tokens.Load())
	require.Equal(t, int64(UsualOutput), s.Writes(time.Hour), "nothing is known")
	s.Wrote(6000, 2*time.Minute)
	require.Equal(t, int64(9000), s.Writes(3*time.Minute))
	s.Wrote(1e6, time.Second)
	require.Equal(t, int64(100*60), s.Writes(time.Minute), "no model writes as fast as a cache answers")
}
