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

// TestWhetherAnotherRoundFollows is one decision for the session, the round and a resume.
func TestWhetherAnotherRoundFollows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		failure       Failure
		round, rounds int
		follows       bool
	}{
		{Failure{Category: TestFailure}, 1, 2, true},
		{Failure{Category: TestFailure}, 2, 2, false},
		{Failure{Category: TestFailure}, 3, 2, false},
		{Failure{Category: TestFailure, Final: true}, 1, 2, false},
		{Failure{Category: Auth}, 1, 2, false},
	} {
		require.Equal(t, c.follows, c.failure.AnotherRound(c.round, c.rounds), "%+v", c)
	}
}
