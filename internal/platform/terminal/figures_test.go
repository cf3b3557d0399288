package terminal_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

func TestNumbersAreInGroupsOfThree(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", -999: "-999", 1234567: "1,234,567"} {
		require.Equal(t, want, terminal.Number(n))
	}
}

func TestLargeNumbersAreShort(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1234: "1.2k", 412_345: "412.3k", 1_250_000: "1.2M", 98_765_432_100: "98.8G"} {
		require.Equal(t, want, terminal.Short(n))
	}
}

func TestAges(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 12 * time.Second: "12s", 5*time.Minute + 3*time.Second: "5m 3s", 26 * time.Hour: "1d 2h", 2*time.Hour + 59*time.Minute: "2h 59m",
	} {
		require.Equal(t, want, terminal.Age(d))
	}
}

func TestSpans(t *testing.T) {
	t.Parallel()
	require.Equal(t, "12ms", terminal.Span(12*time.Millisecond+300*time.Microsecond))
	require.Equal(t, "1m2s", terminal.Span(time.Minute+1800*time.Millisecond))
}

func TestAmountsAreSaidInWhatTheirCapCounts(t *testing.T) {
	t.Parallel()
	spent := cost.Amount{Tokens: 1200, USD: 500_000_000}
	for want, limit := range map[string]spec.Cap{
		"1,200 tokens":             {Tokens: 5000},
		"0.5 USD":                  {USD: 1},
		"1,200 tokens and 0.5 USD": {Tokens: 5000, USD: 1},
	} {
		require.Equal(t, want, terminal.AmountIn(spent, limit))
	}
	require.Equal(t, "5,000 tokens", terminal.Cap(spec.Cap{Tokens: 5000}))
	require.Equal(t, "1,200 tokens, 0.5 USD", terminal.Amount(spent))
}

func TestWhatIsNotThereIsADash(t *testing.T) {
	t.Parallel()
	for _, text := range []string{terminal.Moment(nil), terminal.Moment(&time.Time{}), terminal.Figure(0), terminal.Dollars(0), terminal.Dash("")} {
		require.Equal(t, "-", text)
	}
	require.Empty(t, terminal.Money(cost.Usage{InputTokens: 3}))
}
