package web

import (
	"errors"
	"net/http"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

// sessionsPage is the content of the list of sessions.
type sessionsPage struct {
	control.SessionList
	filter
	States []session.State
	// Filtered: not all sessions are wanted.
	Filtered bool
	Now      time.Time
}

// pageSize is how many sessions a page lists.
const pageSize = 50

func (s *site) sessions(r *http.Request) (page, error) {
	content := sessionsPage{filter: filterOf(r, "team", "status", "since", "label"), States: control.States(), Now: s.Now()}
	f := control.SessionFilter{
		Team: content.Get("team"), Status: session.State(content.Get("status")), Labels: nonEmpty(content.Get("label")),
		Since: content.since(s.Now()), Cursor: r.URL.Query().Get("cursor"), Limit: pageSize,
	}
	var err error
	content.SessionList, err = s.Sessions.List(r.Context(), f)
	content.Filtered = !f.All()
	return page{View: "sessions", Title: "Sessions", Content: content}, err
}

// auditPage is the content of the page of the audit log.
type auditPage struct {
	access.EventPage
	filter
}

func (s *site) audit(r *http.Request) (page, error) {
	if err := access.Check(r.Context(), access.Admin, access.AllTeams); err != nil {
		return page{}, err
	}
	content := auditPage{filter: filterOf(r, "actor", "action", "session")}
	f := access.EventFilter{
		Actor: content.Get("actor"), Action: content.Get("action"), Session: content.Get("session"), Cursor: r.URL.Query().Get("cursor"),
	}
	var err error
	if content.EventPage, err = s.Audit.Events(r.Context(), f); errors.Is(err, access.ErrCursor) {
		err = wrongInput("Page not found", err)
	}
	return page{View: "audit", Title: "Audit log", Content: content}, err
}

// checkpointsPage is the content of the page of a session's checkpoints.
type checkpointsPage struct {
	Session session.Status
	control.CheckpointList
	// MayStart: the person who looks may resume and fork the session.
	MayStart bool
	// After names the phase that follows each.
	After map[string]string
}

func (s *site) checkpoints(r *http.Request) (page, error) {
	id := r.PathValue("session")
	v, err := s.Sessions.Read(r.Context(), id)
	if err != nil {
		return page{}, err
	}
	mayStart := may(r.Context(), access.Operate, v.Team)
	content := checkpointsPage{Session: v.Status, MayStart: mayStart, After: map[string]string{}}
	last := "init"
	for _, p := range v.Phases {
		content.After[last], last = p.Name, p.Name
	}
	if content.CheckpointList, err = s.Checkpoints.List(r.Context(), id); unavailable(err) {
		err = nil
	}
	return page{View: "checkpoints", Title: "Checkpoints of " + id, Content: content}, err
}
