package cost

import (
	"encoding/json"
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
