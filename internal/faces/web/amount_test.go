package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

func TestTokensAreWholeNumbersAndDollarsAreNot(t *testing.T) {
	t.Parallel()
	read := func(field, text string) (control.Raise, error) {
		r, err := http.NewRequest(http.MethodPost, "/", strings.NewReader(url.Values{field: {text}, "scope": {"session"}}.Encode()))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		var raise control.Raise
		err = readAmount(r, &raise)
		return raise, err
	}
	for text, want := range map[string]int64{"500000": 500_000, " 1,500,000 ": 1_500_000, "9223372037": 9_223_372_037} {
		raise, err := read("tokens", text)
		require.NoError(t, err, text)
		require.Equal(t, control.Raise{Tokens: want, Session: true}, raise)
	}
	for _, text := range []string{"1.5", "0.5", "1e3", "5 USD", "99999999999999999999"} {
		_, err := read("tokens", text)
		require.EqualError(t, err, "tokens: enter a whole number, like 500000", text)
	}
	for _, text := range []string{"0", "-5"} {
		_, err := read("tokens", text)
		require.EqualError(t, err, "enter an amount in USD or in tokens that is more than 0", text)
	}
	raise, err := read("usd", "0.25")
	require.NoError(t, err)
	require.Equal(t, cost.USD(250_000_000), raise.USD)
}
