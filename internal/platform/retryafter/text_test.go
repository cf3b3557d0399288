package retryafter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
)

func TestInText(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	// A Sunday, 14:20 in Berlin, 13:20 UTC.
	now := time.Date(2026, time.November, 22, 14, 20, 0, 0, berlin)
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		// Claude Code
		"You've hit your session limit · resets 3pm (UTC)":                             100 * time.Minute,
		"You've hit your session limit · resets 3:30pm (Europe/Berlin)":                70 * time.Minute,
		"You've hit your session limit · resets 3:30\u202fPM (Europe/Berlin)":          70 * time.Minute,
		"You've hit your session limit · resets 1pm (Europe/Berlin)":                   22*time.Hour + 40*time.Minute,
		"You've hit your session limit · resets 12am (Europe/Berlin)":                  9*time.Hour + 40*time.Minute,
		"You've hit your session limit · resets 9am (America/New_York)":                40 * time.Minute,
		"You've hit your weekly limit · resets Jan 2, 2027, 3:30pm (America/New_York)": session.MaxRetryAfter.Std(),
		"Claude AI usage limit reached|1795359600":                                     time.Unix(1795359600, 0).Sub(now),
		"Fast limit reached and temporarily disabled · resets in 12m":                  12 * time.Minute,
		// Codex
		"You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit https://chatgpt.com/settings/usage " +
			"to purchase more credits or try again at 3:05 PM.": 45 * time.Minute,
		"You've hit your usage limit. Try again at Nov 24th, 2026 3:05 PM.":   2*day + 45*time.Minute,
		"You've hit your usage limit. Try again in 2 days 3 hours 5 minutes.": 2*day + 3*time.Hour + 5*time.Minute,
		"Rate limit reached for gpt-5 in organization org-x on tokens per min (TPM): Limit 30000, Used 22999, Requested 12528. " +
			"Please try again in 11.054s. Visit https://platform.openai.com": 11054 * time.Millisecond,
		"Rate limit reached. Please try again in 28ms.":   28 * time.Millisecond,
		"Rate limit reached. Please try again in 1h2m3s.": time.Hour + 2*time.Minute + 3*time.Second,
		// Gemini CLI
		"[API Error: You exceeded your current quota. Please retry in 36.5s.]": 36500 * time.Millisecond,
		`[API Error: {"error":{"code":429,"details":[{"retryDelay":"17s"}]}}]`: 17 * time.Second,
		"You have exhausted your capacity on this model. Your quota will reset after 17h28m49s.": 17*time.Hour + 28*time.Minute +
			49*time.Second,
		// Others
		"resets Monday at 9am (UTC)":                19*time.Hour + 40*time.Minute,
		"resets on Sunday, 1:20 PM":                 7*day - time.Hour,
		"limit resets at 2026-11-22T15:20:00+01:00": time.Hour,
		"try again at 15:20":                        time.Hour,
		"the limit resets at midnight":              9*time.Hour + 40*time.Minute,
		// Clocks differ: what was just over is over, and not tomorrow's.
		"resets 2:18pm (Europe/Berlin)": 0,
		// Nonsense
		"resets 25pm":                       0,
		"resets Feb 31, 3pm":                0,
		"try again in 99999999 days":        session.MaxRetryAfter.Std(),
		"try again at 9999-01-01T00:00:00Z": session.MaxRetryAfter.Std(),
		"resets 3pm (../../etc/passwd)":     40 * time.Minute,
		"limit reached|0000000001":          0,
		"":                                  0,
		// APIs
		"Please retry after 8 seconds. Please go here: https://aka.ms/oai/quotaincrease": 8 * time.Second,
		"Rate limit of 2 per 60s exceeded. Please wait 42 seconds before retrying.":      42 * time.Second,
	} {
		require.Equal(t, want, InText(text, now), text)
	}
	spring := time.Date(2027, time.March, 27, 22, 0, 0, 0, berlin) // an hour is left out that night
	require.Equal(t, 9*time.Hour, InText("resets 8am (Europe/Berlin)", spring))
	newYear := time.Date(2026, time.December, 31, 12, 0, 0, 0, time.UTC)
	require.Equal(t, 3*day, InText("resets Jan 3, 12pm (UTC)", newYear))
}
