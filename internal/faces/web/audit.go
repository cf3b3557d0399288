package web

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/maestro-hive/maestro/internal/access"
)

// auditPage is the content of the page of the audit log.
type auditPage struct {
	access.EventPage
	Actor, Action, Session string
	// Next is the address of the next page; empty: there is none.
	Next string
}

func (s *site) audit(w http.ResponseWriter, r *http.Request) {
	if err := access.Check(r.Context(), access.Admin, access.AllTeams); err != nil {
		s.failed(w, r, err, "")
		return
	}
	q := r.URL.Query()
	content := auditPage{Actor: strings.TrimSpace(q.Get("actor")), Action: strings.TrimSpace(q.Get("action")), Session: strings.TrimSpace(q.Get("session"))}
	var err error
	content.EventPage, err = s.Audit.Events(r.Context(), access.EventFilter{Actor: content.Actor, Action: content.Action, Session: content.Session, Cursor: q.Get("cursor")})
	switch {
	case errors.Is(err, access.ErrCursor):
		s.problem(w, r, problem{Status: http.StatusUnprocessableEntity, Title: "Page not found", Text: err.Error(), Back: "/audit"})
		return
	case err != nil:
		s.failed(w, r, err, "")
		return
	}
	if content.Cursor != "" {
		content.Next = "/audit?" + url.Values{"cursor": {content.Cursor}, "actor": {content.Actor}, "action": {content.Action}, "session": {content.Session}}.Encode()
	}
	s.show(w, r, http.StatusOK, page{View: "audit", Title: "Audit log", Tab: "operate", Content: content})
}

// lookOfOutcome is the look of how an event ended.
func lookOfOutcome(o access.Outcome) Look {
	switch o {
	case access.Done:
		return Look{"good", "check", "Done"}
	case access.Failed:
		return Look{"bad", "cross", "Failed"}
	case access.Denied:
		return Look{"slow", "stop", "Denied"}
	case access.Unknown:
	}
	return Look{"quiet", "circle", "Unknown"}
}
