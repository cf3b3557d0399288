package cost

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

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
