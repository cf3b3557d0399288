package activities

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// TestWhatARoundDoesInAnOutage has a team with a patience of 30 minutes, and a slot that is
// kept for a minute.
func TestWhatARoundDoesInAnOutage(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(minutes float64) time.Time { return now.Add(time.Duration(minutes * float64(time.Minute))) }
	for name, c := range map[string]struct {
		outage session.Outage
		order  OutageStance
		step   outageStep
		left   time.Duration
	}{
		"a short wait keeps the slot": {
			session.Outage{Since: now, PatienceFrom: now, Until: at(0.5)},
			"", keepSlot,
			30 * time.Second,
		},
		"the wait is over": {
			session.Outage{Since: at(-1), PatienceFrom: at(-1), Until: now},
			"", tryAgain,
			0,
		},
		"the outage lasts": {
			session.Outage{Since: at(-2), PatienceFrom: at(-2), Until: at(0.5)},
			"",
			giveSlotBack, 30 * time.Second,
		},
		"patience ends before the wait": {
			session.Outage{Since: at(-29), PatienceFrom: at(-29), Until: at(5)},
			"",
			giveSlotBack, time.Minute,
		},
		"patience is over": {
			session.Outage{Since: at(-30), PatienceFrom: at(-30), Until: at(5)},
			"",
			notifyOrFail, 0,
		},
		"the session has noticed that it is over": {
			session.Outage{Since: at(-1), PatienceFrom: at(-1), Until: at(5)},
			OutageOver,
			notifyOrFail, 0,
		},
		"people are notified": {session.Outage{
			Since: at(-60), PatienceFrom: at(-60), Until: at(5),
			Noticed: true,
		}, OutageNoticed, giveSlotBack, 5 * time.Minute},
		"people are notified, and the wait is over": {session.Outage{
			Since: at(-60), PatienceFrom: at(-60), Until: now,
			Noticed: true,
		}, OutageNoticed, tryAgain, 0},
		"patience begins when the provider's time is": {
			session.Outage{Since: at(-60), PatienceFrom: at(10), Until: at(10)},
			"",
			giveSlotBack, 10 * time.Minute,
		},
	} {
		patience := textfmt.Duration(30 * time.Minute)
		r := &round{Rounds: &Rounds{HoldSlot: time.Minute}, in: RoundInput{Outage: c.order}}
		r.session.team.Retry = spec.Retry{Patience: &patience}
		step, left := r.nextInOutage(c.outage, now)
		require.Equal(t, c.step, step, name)
		require.Equal(t, c.left, left, name)
	}
}

// TestWhatABreakerLearnsFromARound is nothing where the round is no evidence and has no lease to
// give back.
func TestWhatABreakerLearnsFromARound(t *testing.T) {
	t.Parallel()
	ordinary, probe := &session.BreakerPermit{Generation: 2}, &session.BreakerPermit{Generation: 2, Holder: "me"}
	for name, c := range map[string]struct {
		off      bool
		permit   *session.BreakerPermit
		category failures.Category
		final    bool
		wait     time.Duration
		want     failures.Weight
	}{
		"a request above every limit": {permit: probe, category: failures.RateLimited, final: true, want: failures.Neutral},
		"a limit of a minute": {
			permit: ordinary, category: failures.RateLimited, wait: time.Minute,
			want: failures.CountsAsFailure,
		},
		"a limit of a day":       {permit: ordinary, category: failures.RateLimited, wait: 9 * time.Hour},
		"a probe that meets one": {permit: probe, category: failures.RateLimited, wait: 9 * time.Hour, want: failures.Neutral},
		"a long outage": {
			permit: ordinary, category: failures.APIError, wait: 9 * time.Hour,
			want: failures.CountsAsFailure,
		},
		"a final failure of the agent":    {permit: ordinary, category: failures.Unknown, final: true, want: failures.CountsAsFailure},
		"an answer":                       {permit: ordinary, want: failures.CountsAsSuccess},
		"a wrong answer is an answer":     {permit: ordinary, category: failures.TestFailure, want: failures.CountsAsSuccess},
		"a failure of the provider":       {permit: ordinary, category: failures.APIError, want: failures.CountsAsFailure},
		"a failure of a person's":         {permit: ordinary, category: failures.TokenBudget},
		"a probe gives its lease back":    {permit: probe, category: failures.TokenBudget, want: failures.Neutral},
		"a probe that failed":             {permit: probe, category: failures.Timeout, want: failures.CountsAsFailure},
		"a round that has not begun":      {category: failures.APIError},
		"a worker without breakers":       {off: true, permit: ordinary, category: failures.APIError},
		"a probe without breakers is off": {off: true, permit: probe},
	} {
		b := &agentBreaker{settings: spec.Breaker{Name: "agent"}}
		if !c.off {
			b.port = unusedBreakers{}
		}
		var failure *failures.Failure
		if c.category != "" {
			failure = &failures.Failure{Category: c.category, Message: "why", Final: c.final, RetryAfter: textfmt.Duration(c.wait)}
		}
		report := b.outcome("id", c.permit, failure)
		if c.want == "" {
			require.Nil(t, report, name)
			continue
		}
		require.NotNil(t, report, name)
		require.Equal(t, c.want, report.Outcome, name)
		require.Equal(t, *c.permit, report.BreakerPermit, name)
		require.Equal(t, c.category, report.Category, name)
		require.Equal(t, c.wait, report.RetryAfter.Std(), name)
	}
}

// unusedBreakers is a port that is not called.
type unusedBreakers struct{ Breakers }
