package httpapi

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
)

// listInput selects sessions.
type listInput struct {
	Team   string    `query:"team" maxLength:"100" doc:"only sessions of this team"`
	Status string    `query:"status" maxLength:"40" doc:"only sessions in this state"`
	Label  []string  `query:"label,explode" maxItems:"16" doc:"only sessions with this label, as KEY=VALUE; may be given several times"`
	Since  time.Time `query:"since" doc:"only sessions that started at this time or later"`
	Cursor string    `query:"cursor" maxLength:"1000" doc:"continue after the page that ended with this cursor"`
	Limit  int       `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"how many at most"`
}

func sessions(api huma.API, s control.Sessions) {
	register(api, operation("GET /sessions", "list-sessions", "List sessions, newest first"),
		func(ctx context.Context, in *listInput) (control.SessionList, error) {
			labels, err := control.ParseLabels(in.Label)
			if err != nil {
				return control.SessionList{}, err
			}
			return s.List(ctx, control.SessionFilter{Team: in.Team, Status: session.State(in.Status), Labels: labels, Since: in.Since, Cursor: in.Cursor, Limit: in.Limit})
		})
	register(api, operation("GET /sessions/{session}", "read-session", "Read a session's status"),
		func(ctx context.Context, in *ofSession) (sessionstatus.Session, error) {
			v, err := s.Status(ctx, in.Session)
			v.Course.Source = nil // a directory of somebody's machine
			return v, err
		})
	register(api, operation("GET /sessions/{session}/progress", "read-progress", "Read a session's status, and the progress of its work"),
		func(ctx context.Context, in *ofSession) (control.Progress, error) {
			p, err := s.Progress(ctx, in.Session)
			p.Session.Course.Source = nil // a directory of somebody's machine
			return p, err
		})
	register(api, operation("POST /sessions/{session}/cancel", "cancel-session", "Cancel a session: its agents are stopped, finished work stays"),
		func(ctx context.Context, in *ofSession) (control.Cancellation, error) {
			return s.Cancel(ctx, in.Session)
		})
}
