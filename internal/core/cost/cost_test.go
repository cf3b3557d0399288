package cost

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMoneyIsExact(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]USD{
		"0": 0, "1": 1e9, "0.1": 1e8, "0.000000001": 1, "1e-3": 1e6, "-2.5": -2.5e9, "0.0000000004": 0, "0.0000000005": 1,
	} {
		var u USD
		require.NoError(t, json.Unmarshal([]byte(text), &u), text)
		require.Equal(t, want, u, text)
	}
	for _, bad := range []string{`"1"`, "1/3", "1e30", "true"} {
		var u USD
		require.Error(t, json.Unmarshal([]byte(bad), &u), bad)
	}
	var sum USD
	for range 10 {
		sum += 1e8
	}
	require.Equal(t, "1", sum.String())
	data, err := json.Marshal(Usage{CostUSD: 250_000_000})
	require.NoError(t, err)
	require.Contains(t, string(data), `"cost_usd":0.25`)
}

func TestWhatHasCostSomethingNeverLooksFree(t *testing.T) {
	t.Parallel()
	for amount, want := range map[USD]string{
		0: "0", 1: "0.0001", 302_700_000: "0.3027", 302_700_001: "0.3028", 12e9: "12",
		-1: "-0.000000001",
	} {
		require.Equal(t, want, amount.Rounded().String())
	}
}

func TestUsageRefusesNonsense(t *testing.T) {
	t.Parallel()
	require.NoError(t, Usage{InputTokens: 5, CostUSD: 1}.Validate())
	require.ErrorContains(t, Usage{OutputTokens: -1}.Validate(), "output_tokens is -1")
	require.ErrorContains(t, Usage{InputTokens: 1 << 60}.Validate(), "input_tokens")
	require.Error(t, Usage{CostUSD: -1}.Validate())
}

func TestMoneyIsWrittenPlainly(t *testing.T) {
	t.Parallel()
	for u, want := range map[USD]string{
		0: "0", 1: "0.000000001", -1: "-0.000000001", 20e9: "20", 1_230_000_000: "1.23",
		math.MaxInt64: "9223372036.854775807", math.MinInt64: "-9223372036.854775808",
	} {
		require.Equal(t, want, u.String())
	}
}

func TestMoneyInTeamFiles(t *testing.T) {
	t.Parallel()
	var u USD
	require.NoError(t, u.UnmarshalText([]byte("0.5\n")))
	require.Equal(t, USD(500_000_000), u)
	for _, bad := range []string{"", "five", "$5", "1_000", "1/2", "0x10", "1e400000", "1e-", "5 USD", "NaN", "Inf"} {
		require.Error(t, u.UnmarshalText([]byte(bad)), bad)
	}
}

// FuzzUSD: what is written is read as the same amount.
func FuzzUSD(f *testing.F) {
	for _, seed := range []int64{0, 1, -1, 999_999_999, 1_000_000_000, math.MaxInt64, math.MinInt64} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, amount int64) {
		data, err := json.Marshal(USD(amount))
		require.NoError(t, err)
		var back USD
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, USD(amount), back)
	})
}

func TestCachedInputIsNotFreeByDefault(t *testing.T) {
	t.Parallel()
	require.Equal(t, Prices{Input: 4, Output: 15, CacheRead: 4, CacheWrite: 5, CacheWrite1h: 8, WebSearch: 9},
		Prices{Input: 4, Output: 15}.WithDefaults(9))
	said := Prices{Input: 3, Output: 15, CacheRead: 1, CacheWrite: 4, CacheWrite1h: 7, WebSearch: 8}
	require.Equal(t, said, said.WithDefaults(9))
	require.Equal(t, Prices{}, Prices{}.WithDefaults(0))
}
