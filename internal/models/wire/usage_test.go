package wire

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

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
		require.Equal(t, row[5], string(got), row[0])
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
