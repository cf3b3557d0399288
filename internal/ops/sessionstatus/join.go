package sessionstatus

import (
	"context"
	"errors"
	"slices"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// stored reads the session's status as of its newest boundary, with later changes from the rounds of assignments at
// work and from the breakers that they wait for; nil if the state has none.
func (w *Reader) stored(ctx context.Context, owner string) (*session.Execution, error) {
	if owner != "" && owner != w.Store.ID() {
		return nil, nil
	}
	e, err := w.Store.State.Execution(ctx, w.Key())
	switch {
	case errors.Is(err, session.ErrNotFound):
		return nil, nil // the next boundary writes it
	case err != nil:
		return nil, err
	}
	if err := w.addPullRequests(ctx, &e.Status); err != nil {
		return nil, err
	}
	if e.Status.Status.Closed() {
		return &e, nil
	}
	records, err := w.Store.State.Records(ctx, w.Key())
	if err != nil {
		return nil, err
	}
	of := map[spec.AssignmentID]session.Record{}
	for _, r := range records {
		of[r.Assignment] = r
	}
	for i := range e.Phases {
		if !e.Phases[i].Status.Done() {
			w.joinPhase(ctx, &e.Phases[i], of, e.First)
		}
	}
	e.Stand()
	return &e, nil
}

// addPullRequests adds to phases that deliver the state of their pull requests, as of the last look at each.
func (w *Reader) addPullRequests(ctx context.Context, s *session.Status) error {
	if !s.Delivers() {
		return nil
	}
	rows, err := w.Store.State.Deliveries(ctx, w.Key())
	for _, row := range rows {
		i := slices.IndexFunc(s.Phases, func(p session.PhaseStatus) bool { return p.Name == row.Phase })
		if i < 0 || row.Number == 0 {
			continue
		}
		p := &row.PullRequest
		if s.Phases[i].Status.Done() || s.Status.Closed() { // nobody looks any more
			p.WaitsFor = ""
		}
		s.Phases[i].PullRequest = p
	}
	return err
}

func (w *Reader) joinPhase(ctx context.Context, p *session.PhaseStatus, of map[spec.AssignmentID]session.Record, first int) {
	for i := range p.Assignments {
		a := &p.Assignments[i]
		if join(a, of[spec.AssignmentID{Phase: p.Name, Persona: a.Persona}], first) && p.Status == session.Pending {
			p.Status = session.Running
		}
		if a.Awaits == nil {
			continue
		}
		if b, err := w.Store.State.Breaker(ctx, a.Awaits.Breaker); err == nil && b.State == session.BreakerIsOpen {
			wait := b.WaitFor(a.Awaits.Since)
			a.Awaits = &wait
		}
	}
}

// join adds what an assignment has done since the boundary of the status. It returns
// false if it has no round since the first run. Whether the assignment waits for a person or a
// breaker is only in the status.
func join(a *session.AssignmentStatus, r session.Record, first int) bool {
	if len(r.Rounds) == 0 {
		return false
	}
	last, now := r.Rounds[len(r.Rounds)-1], r.Status()
	current := last.Run >= first && !last.Stale()
	if a.Status.Done() && (!current || !last.Integrating) {
		return current
	}
	waits := a.Awaits != nil && !last.AtWork
	if !current || waits || a.Status == session.HelpIsNeeded {
		now.Status, now.Agent, now.Summary, now.Files, now.Progress, now.Awaits = a.Status, a.Agent, a.Summary, a.Files, a.Progress,
			a.Awaits
	}
	*a = now
	return current
}
