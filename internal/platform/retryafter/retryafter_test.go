package retryafter_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/platform/retryafter"
)

func TestParse(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		header http.Header
		want   time.Duration
	}{
		"nothing":            {nil, 0},
		"seconds":            {http.Header{"Retry-After": {"2"}}, 2 * time.Second},
		"parts of one":       {http.Header{"Retry-After": {"0.5"}}, 500 * time.Millisecond},
		"milliseconds win":   {http.Header{"Retry-After": {"2"}, "Retry-After-Ms": {"1500"}}, 1500 * time.Millisecond},
		"a date":             {http.Header{"Retry-After": {"Fri, 02 Jan 2026 03:05:05 GMT"}}, time.Minute},
		"a date gone by":     {http.Header{"Retry-After": {"Fri, 02 Jan 2026 03:00:00 GMT"}}, 0},
		"a negative":         {http.Header{"Retry-After": {"-5"}}, 0},
		"no number":          {http.Header{"Retry-After": {"NaN"}}, 0},
		"for ever":           {http.Header{"Retry-After": {"Inf"}}, session.MaxRetryAfter.Std()},
		"words":              {http.Header{"Retry-After": {"soon"}}, 0},
		"a duration":         {http.Header{"Retry-After": {"1m30s"}}, 90 * time.Second},
		"an ISO date":        {http.Header{"Retry-After": {"2026-01-02T03:05:05Z"}}, time.Minute},
		"since 1970":         {http.Header{"Retry-After": {"1767323105"}}, time.Minute},
		"since 1970, gone":   {http.Header{"Retry-After": {"1000000001"}}, 0},
		"Azure's":            {http.Header{"X-Ms-Retry-After-Ms": {"250"}}, 250 * time.Millisecond},
		"OpenRouter's reset": {http.Header{"X-Ratelimit-Reset": {"1767323105000"}, "X-Ratelimit-Remaining": {"0"}}, time.Minute},
		"the later of Groq's resets": {http.Header{
			"X-Ratelimit-Reset-Requests": {"2m59.56s"}, "X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Tokens": {"7.66s"},
			"X-Ratelimit-Remaining-Tokens": {"0"},
		}, 179_560 * time.Millisecond},
		"Anthropic's reset": {http.Header{
			"Anthropic-Ratelimit-Tokens-Reset": {"2026-01-02T03:05:05Z"}, "Anthropic-Ratelimit-Tokens-Remaining": {"0"},
		}, time.Minute},
		"of a limit that remains": {http.Header{
			"X-Ratelimit-Reset-Requests": {"8h"}, "X-Ratelimit-Remaining-Requests": {"12"},
			"Anthropic-Ratelimit-Unified-Reset": {"1767344705"},
		}, 0},
	} {
		require.Equal(t, c.want, retryafter.Parse(c.header, now), name)
	}
}

func TestWaitEndsWithTheContext(t *testing.T) {
	t.Parallel()
	require.True(t, retryafter.Wait(t.Context(), time.Millisecond))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, retryafter.Wait(ctx, time.Hour))
}
