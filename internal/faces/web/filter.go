package web

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// filter is what a page is asked for: the fields of its address, by name.
type filter struct{ url.Values }

// filterOf reads fields of an address. Those that are empty are left out.
func filterOf(r *http.Request, names ...string) filter {
	f := filter{url.Values{}}
	for _, name := range names {
		if value := strings.TrimSpace(r.URL.Query().Get(name)); value != "" {
			f.Set(name, value)
		}
	}
	return f
}

// With is the address of the same page with another value of a field; an empty one leaves the field out.
func (f filter) With(name, value string) string {
	q := maps.Clone(f.Values)
	if q.Set(name, value); value == "" {
		q.Del(name)
	}
	return "?" + q.Encode()
}

// sinceTimes are the choices of the field since.
var sinceTimes = map[string]time.Duration{
	"1h": time.Hour, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "30d": 30 * 24 * time.Hour,
}

// since is the beginning of the chosen time; the zero time if none was chosen.
func (f filter) since(now time.Time) time.Time {
	since, known := sinceTimes[f.Get("since")]
	if !known {
		return time.Time{}
	}
	return now.Add(-since)
}
