package launch

import (
	"context"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// Plan lists what the admission of a session would do with each assignment. Nothing is started. For
// a new session it needs neither Temporal nor workers; for others it needs what Check needs. A
// course that would be refused is a [*RefusedError].
func (l *Launcher) Plan(ctx context.Context, s Session) ([]session.PlanEntry, error) {
	p := activities.Planned{Team: s.Team, Requirement: s.Requirement, Start: s.Start}
	a := &activities.Admissions{Files: l.Store.Content}
	if s.Start.Base != "" {
		agents, err := l.agents(ctx, s.Team)
		if err != nil {
			return nil, err
		}
		p.Key, p.Agents = session.Key{Namespace: l.Conn.Namespace, Session: s.ID}, agents
		a.Sessions, a.State = l.Store, l.Store.State
	}
	plan, problems, err := a.Plan(ctx, p)
	if err == nil && len(problems) > 0 {
		err = &RefusedError{problems}
	}
	return plan, err
}
