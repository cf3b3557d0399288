package sessionstatus

import (
	"errors"
	"slices"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// stored reads the session's status document, with later changes from the records of assignments at
// work and from the breakers that they wait for; nil if this store has no document.
func (w *Watcher) stored(owner, run string) (*session.Execution, error) {
	if w.Store == nil || owner != "" && owner != w.Store.ID() {
		return nil, nil
	}
	e, err := w.Store.Execution(w.Key())
	switch {
	case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrCorrupt):
		return nil, nil // the next boundary writes it again
	case err != nil:
		return nil, err
	case e.Status.Status.Closed():
		return &e, nil
	}
	runs := []string{e.RunID, run}
	if e.OriginalRun == e.RunID { // otherwise it was reset, and starts its rounds itself
		runs = append(runs, e.FirstRun)
	}
	for i := range e.Phases {
		if !e.Phases[i].Status.Done() {
			w.joinPhase(&e.Phases[i], runs...)
		}
	}
	e.Stand()
	return &e, nil
}

func (w *Watcher) joinPhase(p *session.PhaseStatus, runs ...string) {
	for i := range p.Assignments {
		a := &p.Assignments[i]
		record, err := w.Store.Record(w.Key(), spec.AssignmentID{Phase: p.Name, Persona: a.Persona})
		if err == nil && join(a, record, runs...) && p.Status == session.Pending {
			p.Status = session.Running
		}
		if a.Awaits == nil {
			continue
		}
		if b, err := w.Store.Breaker(a.Awaits.Breaker); err == nil && b.State == session.BreakerIsOpen {
			wait := b.WaitFor(a.Awaits.Since)
			a.Awaits = &wait
		}
	}
}

// join adds what an assignment's record has after the boundary of the status document. It returns
// false if the record has no round of these runs. Whether the assignment waits for a person or a
// breaker is only in the document.
func join(a *session.AssignmentStatus, r session.Record, runs ...string) bool {
	if len(r.Rounds) == 0 {
		return false
	}
	last, now := r.Rounds[len(r.Rounds)-1], r.Status()
	current := slices.Contains(runs, last.Key.Run) && !last.Stale
	if a.Status.Done() && (!current || !last.Integrating) {
		return current
	}
	waits := a.Awaits != nil && !last.Started
	if !current || waits || a.Status == session.HelpIsNeeded {
		now.Status, now.Agent, now.Summary, now.Progress, now.Awaits = a.Status, a.Agent, a.Summary, a.Progress, a.Awaits
	}
	*a = now
	return current
}
