package web

import (
	"net/http"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

// checkpointsPage is the content of the page of a session's checkpoints.
type checkpointsPage struct {
	Session session.Status
	control.CheckpointList
	// MayStart: the person who looks may resume and fork the session.
	MayStart bool
	// After names the phase that follows each.
	After map[string]string
}

func (s *site) checkpoints(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("session")
	v, err := s.Sessions.Read(r.Context(), id)
	if err != nil {
		s.failed(w, r, err, "/sessions")
		return
	}
	content := checkpointsPage{Session: v.Status, MayStart: may(r.Context(), access.Operate, v.Team), After: map[string]string{}}
	last := "init"
	for _, p := range v.Phases {
		content.After[last], last = p.Name, p.Name
	}
	if content.CheckpointList, err = s.Checkpoints.List(r.Context(), id); err != nil && !unavailable(err) {
		s.failed(w, r, err, sessionURL(id))
		return
	}
	s.show(w, r, http.StatusOK, page{View: "checkpoints", Title: "Checkpoints of " + id, Tab: "sessions", Content: content})
}
