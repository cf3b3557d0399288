// Package retryafter parses the wait that an HTTP response requires before the next request.
package retryafter

import (
	"net/http"
	"strconv"
	"time"

	"github.com/maestro-hive/maestro/internal/session"
)

// Parse returns the wait that the headers Retry-After-Ms or Retry-After state, as a number or
// a date; zero if they state none. It is at most [session.MaxRetryAfter].
func Parse(header http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(header.Get("Retry-After-Ms"), 64); err == nil {
		return bound(ms * float64(time.Millisecond))
	}
	text := header.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		return bound(seconds * float64(time.Second))
	}
	if date, err := http.ParseTime(text); err == nil {
		return Until(date, now)
	}
	return 0
}

// Until returns the wait until a stated time, with the same bounds.
func Until(date, now time.Time) time.Duration { return bound(float64(date.Sub(now))) }

func bound(wait float64) time.Duration {
	if !(wait > 0) { // also NaN
		return 0
	}
	return time.Duration(min(wait, float64(session.MaxRetryAfter)))
}
