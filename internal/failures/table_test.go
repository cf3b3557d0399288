package failures

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFailureTable(t *testing.T) {
	t.Parallel()
	for _, c := range Categories() {
		require.NotEmpty(t, RuleFor(c).Advice, c)
		require.NotEmpty(t, Failf(c, "m").Remedy(), c)
		require.NotEmpty(t, RuleFor(c).Breaker, c)
	}
	require.Equal(t, RuleFor(Unknown), RuleFor("never heard of"))
	require.False(t, Failf(Auth, "x").RetryAttempt())
	require.True(t, Failf(TestFailure, "x").RetryAttempt())
	final := Failf(TestFailure, "x")
	final.Final = true
	require.False(t, final.RetryAttempt())
	require.False(t, final.RetryRound())
}
