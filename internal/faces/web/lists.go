package web

import (
	"net/http"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

// sessionsPage is the content of the list of sessions.
type sessionsPage struct {
	control.SessionList
	filter
	States []session.State
	// Filtered: not all sessions are wanted.
	Filtered bool
}

// pageSize is how many sessions a page lists.
const pageSize = 50

func (s *site) sessions(r *http.Request) (page, error) {
	content := sessionsPage{filter: filterOf(r, "team", "status", "since", "label"), States: control.States()}
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
	content := auditPage{filter: filterOf(r, "actor", "action", "session")}
	f := access.EventFilter{
		Actor: content.Get("actor"), Action: content.Get("action"), Session: content.Get("session"),
		Cursor: r.URL.Query().Get("cursor"),
	}
	var err error
	content.EventPage, err = s.Account.Events(r.Context(), f)
	return page{View: "audit", Title: "Audit log", Content: content}, err
}

// checkpointsPage is the content of the page of a session's checkpoints.
type checkpointsPage struct {
	Session session.Status
	control.Damage
	Checkpoints []checkpointView
	// MayStart: the person who looks may resume and fork the session.
	MayStart bool
}

// checkpointView is a checkpoint in the list.
type checkpointView struct {
	control.ListedCheckpoint
	// Next is the phase that follows; empty: none does.
	Next string
}

// checkpointViews are a session's checkpoints, the newest first.
func checkpointViews(all []control.ListedCheckpoint, phases []session.PhaseStatus) (views []checkpointView) {
	next, last := map[string]string{}, spec.ReservedPhase
	for _, p := range phases {
		next[last], last = p.Name, p.Name
	}
	for _, c := range all {
		v := checkpointView{ListedCheckpoint: c, Next: next[c.Phase]}
		if v.SentBack {
			v.Next = c.Phase
		}
		views = append(views, v)
	}
	return views
}

func (s *site) checkpoints(r *http.Request) (page, error) {
	id := r.PathValue("session")
	v, err := s.Sessions.Read(r.Context(), id)
	if err != nil {
		return page{}, err
	}
	list, err := s.Checkpoints.List(r.Context(), id)
	if unavailable(err) {
		err = nil
	}
	content := checkpointsPage{Session: v.Status, Damage: list.Damage, MayStart: may(r.Context(), access.Operate, v.Team)}
	content.Checkpoints = checkpointViews(list.Checkpoints, v.Phases)
	return page{View: "checkpoints", Title: "Checkpoints of " + id, Content: content}, err
}
