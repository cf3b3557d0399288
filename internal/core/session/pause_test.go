package session_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// TestPausesOfARound are counted in the attempt that they interrupt, once, however often it waits.
func TestPausesOfARound(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return time.Date(2026, 11, 26, 10, minute, 0, 0, time.UTC) }
	var l session.RoundLog
	l.Continue(at(0))
	l.Pause(at(1), failures.Failure{Category: failures.TokenBudget})
	l.Pause(at(2), failures.Failure{Category: failures.APIError})
	require.Equal(t, []session.Pause{{From: at(1), To: at(5), For: failures.TokenBudget}}, l.PausesIn(at(0), at(5)),
		"one that lasts")
	before := l
	l.Continue(at(3))
	l.Continue(at(4))
	require.Zero(t, before.Pauses[0].To, "a reader's copy stays")
	require.Equal(t, []session.Pause{{From: at(2), To: at(3), For: failures.TokenBudget}}, l.PausesIn(at(2), at(9)))
	require.Empty(t, l.PausesIn(at(3), at(9)))
	for i := range 200 {
		l.Pause(at(10).Add(time.Duration(i)*time.Second), failures.Failure{Category: failures.APIError})
		l.Continue(at(10).Add(time.Duration(i) * time.Second))
	}
	require.Len(t, l.Pauses, 50, "the oldest are joined")
	require.Equal(t, at(1), l.Pauses[0].From)
}

// TestAWaitForOthersGoesOnOverLooks at what they have done, until they have to do something else.
func TestAWaitForOthersGoesOnOverLooks(t *testing.T) {
	t.Parallel()
	at := func(second int) time.Time { return time.Date(2026, 11, 26, 10, 0, second, 0, time.UTC) }
	var l session.RoundLog
	for i, text := range []string{"waits for CI", "waits for CI", "waits for a review"} {
		l.Pause(at(20*i), *failures.Failf(failures.Pending, "%s", text))
		l.Continue(at(20*i + 15))
	}
	require.Equal(t, []session.Pause{
		{From: at(0), To: at(35), For: failures.Pending, Text: "waits for CI"},
		{From: at(40), To: at(55), For: failures.Pending, Text: "waits for a review"},
	}, l.Pauses)
	l.Pause(at(200), *failures.Failf(failures.Pending, "waits for a review"))
	require.Len(t, l.Pauses, 3, "the attempt was at work for long")
}
