// Package retryafter reads the wait that a server requires before the next request, and waits before the next try.
package retryafter

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// Wait waits. It reports false at once if the context ends.
func Wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Parse returns the wait that the header of an HTTP answer states: in Retry-After or in milliseconds, or else until the
// reset of a rate limit of which nothing remains; zero if it states none. It is at most [session.MaxRetryAfter].
func Parse(header http.Header, now time.Time) time.Duration {
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if ms, err := strconv.ParseFloat(header.Get(name), 64); err == nil {
			return bounded(ms * float64(time.Millisecond))
		}
	}
	if wait := Value(header.Get("Retry-After"), now); wait > 0 {
		return wait
	}
	wait := time.Duration(0)
	for name := range header {
		lower := strings.ToLower(name)
		if strings.Contains(lower, "ratelimit") && strings.Contains(lower, "reset") &&
			header.Get(strings.Replace(lower, "reset", "remaining", 1)) == "0" {
			wait = max(wait, Value(header.Get(name), now))
		}
	}
	return wait
}

// epoch is the smallest number of seconds that is a time, and not a wait.
const epoch = 1_000_000_000

// Value returns the wait that a value states: seconds, a duration like 6m0s, a date, or seconds or milliseconds since 1970.
// It is at most [session.MaxRetryAfter].
func Value(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		switch {
		case n >= 100*epoch:
			n = n/1000 - float64(now.Unix())
		case n >= epoch:
			n -= float64(now.Unix())
		}
		return bounded(n * float64(time.Second))
	}
	if d, err := time.ParseDuration(text); err == nil {
		return bounded(float64(d))
	}
	if date, err := http.ParseTime(text); err == nil {
		return bounded(float64(date.Sub(now)))
	}
	return untilISO(text, now)
}

// bounded returns a wait in nanoseconds as at most [session.MaxRetryAfter]; zero if it is none.
func bounded(wait float64) time.Duration {
	if !(wait > 0) { // also NaN
		return 0
	}
	return time.Duration(min(wait, float64(session.MaxRetryAfter)))
}
