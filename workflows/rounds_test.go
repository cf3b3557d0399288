package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// TestWhetherARoundFollows is retry level 2.
func TestWhetherARoundFollows(t *testing.T) {
	t.Parallel()
	retry := spec.Retry{Rounds: 3, RoundInitial: textfmt.Duration(5 * time.Second), RoundMax: textfmt.Duration(20 * time.Second)}
	for _, c := range []struct {
		failure failures.Failure
		round   int
		wait    time.Duration
		again   bool
	}{
		{failures.Failure{Category: failures.TestFailure}, 1, 5 * time.Second, true},
		{failures.Failure{Category: failures.TestFailure}, 2, 10 * time.Second, true},
		{failures.Failure{Category: failures.TestFailure}, 3, 0, false},
		{failures.Failure{Category: failures.RateLimited, RetryAfter: textfmt.Duration(10 * time.Minute)}, 1, 10 * time.Minute, true},
		{failures.Failure{Category: failures.Auth}, 1, 0, false},
	} {
		wait, again := afterRound(c.failure, c.round, retry)
		require.Equal(t, c.again, again, "%+v", c)
		require.Equal(t, c.wait, wait, "%+v", c)
	}
}

// TestADeliveryTakesNoFiles: the request says which answers it takes.
func TestADeliveryTakesNoFiles(t *testing.T) {
	t.Parallel()
	all := session.ForHelp.Rule().Actions
	require.Equal(t, all, answersOf(spec.Phase{Name: "build"}, all))
	r := &request{Request: session.Request{ID: "ship.delivery.1", Kind: session.ForHelp}}
	r.Actions = answersOf(spec.Phase{Name: "ship", Deliver: &spec.Deliver{}}, all)
	err := r.checkAnswer(session.Answer{Action: session.AnswerSupply, Files: "f"}, "s")
	require.ErrorContains(t, err, `request ship.delivery.1 cannot be answered with action "supply"; it takes retry, skip, abort`)
	require.Contains(t, session.ForHelp.Rule().Actions, session.AnswerSupply)
}
