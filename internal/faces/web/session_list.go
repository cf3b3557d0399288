package web

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

// sessionsPage is the content of the list of sessions.
type sessionsPage struct {
	control.SessionList
	Team, Status, Since, Label string
	States                     []session.State
	// Next is the address of the next page; empty: there is none.
	Next string
	// Filtered: not all sessions are wanted.
	Filtered bool
	Now      time.Time
}

// sinceTimes are the choices of the filter.
var sinceTimes = map[string]time.Duration{"1h": time.Hour, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "30d": 30 * 24 * time.Hour}

// pageSize is how many sessions a page lists.
const pageSize = 50

func (s *site) sessions(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	content := sessionsPage{Team: strings.TrimSpace(q.Get("team")), Status: q.Get("status"), Since: q.Get("since"), Label: strings.TrimSpace(q.Get("label")), States: control.States(), Now: s.Now()}
	f := control.SessionFilter{Team: content.Team, Status: session.State(content.Status), Cursor: q.Get("cursor"), Limit: pageSize}
	if since, ok := sinceTimes[content.Since]; ok {
		f.Since = s.Now().Add(-since)
	}
	if content.Label != "" {
		f.Labels = []string{content.Label}
	}
	var err error
	if content.SessionList, err = s.Sessions.List(r.Context(), f); err != nil {
		s.failed(w, r, err, "/sessions")
		return
	}
	content.Filtered = !f.All()
	if content.More {
		next := url.Values{"cursor": {content.Cursor}}
		for name, value := range map[string]string{"team": content.Team, "status": content.Status, "since": content.Since, "label": content.Label} {
			if value != "" {
				next.Set(name, value)
			}
		}
		content.Next = "/sessions?" + next.Encode()
	}
	s.show(w, r, http.StatusOK, page{View: "sessions", Title: "Sessions", Tab: "sessions", Content: content})
}
