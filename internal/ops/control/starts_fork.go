package control

import (
	"cmp"
	"context"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/launch"
	"github.com/maestro-hive/maestro/internal/store"
)

// Fork are the options of a fork.
type Fork struct {
	// From is the phase to run again, with all phases that depend on it.
	From string `json:"from" doc:"the phase to run again, with all that depend on it"`
	// Checkpoint is the one with the work that is reused, by its phase or the beginning of its digest; empty: the newest.
	Checkpoint string `json:"checkpoint,omitempty" maxLength:"200" doc:"the checkpoint with the work that is reused; the newest if left out"`
	// As is the id of the new session; empty: one is chosen.
	As string `json:"as,omitempty" doc:"the id of the new session; one is chosen if left out"`
	// Team is the new session's; empty: that of the other session.
	Team TeamInput `json:"team,omitzero"`
}

// Fork starts a new session with the finished work of another one. With an error, the document
// names a session only if it was started.
func (s Starts) Fork(ctx context.Context, sessionID string, in Fork) (doc Started, err error) {
	own := ""
	if in.As == "" {
		own, in.As = s.forkID(ctx, sessionID, in)
	}
	event := access.Event{Action: "session.fork", Subject: in.As, Detail: "from phase " + in.From}
	err = s.change(ctx, access.Operate, sessionID, event, func(ctx context.Context) error {
		l, next, faults, err := s.prepareFork(ctx, sessionID, in)
		if err == nil {
			doc, err = startAndAwait(ctx, l, next, true)
		}
		if isTaken(err, own) {
			doc, err = s.startedBefore(ctx, l, own)
		}
		doc.Faults = faults
		return startError(err)
	})
	return doc, err
}

// forkID chooses the id of a fork, and returns the same one as own if it is that of each try; empty:
// its team is unknown.
func (s Starts) forkID(ctx context.Context, sessionID string, in Fork) (own, id string) {
	name := s.teamName(ctx, sessionID)
	if t, err := s.team(ctx, in.Team); err == nil {
		name = t.Name
	}
	if name == access.AllTeams {
		return "", ""
	}
	own = s.repeatedID(ctx, name, sessionID, in)
	return own, cmp.Or(own, launch.NewID(name, s.Now()))
}

// PreviewFork describes what Fork would do.
func (s Starts) PreviewFork(ctx context.Context, sessionID string, in Fork) (doc Foreseen, err error) {
	if err := s.may(ctx, access.Operate, sessionID); err != nil {
		return doc, err
	}
	l, next, faults, err := s.prepareFork(ctx, sessionID, in)
	doc.Faults = faults
	if err != nil {
		return doc, startError(err)
	}
	doc.Session, doc.Run = next.ID, 1
	doc.Plan, err = l.Plan(ctx, next)
	return doc, startError(err)
}

// prepareFork prepares a fork.
func (s Starts) prepareFork(ctx context.Context, sessionID string, in Fork) (l *launch.Launcher, next launch.Session,
	faults []string, err error,
) {
	if in.From == "" {
		return nil, next, nil, invalidf("from", "missing; give the phase to run again")
	}
	if in.As != "" {
		if err := invalid("as", spec.CheckSession(in.As)); err != nil {
			return nil, next, nil, err
		}
	}
	found, t, faults, err := s.lastGood(ctx, sessionID, in.Team)
	if err != nil {
		return nil, next, faults, err
	}
	if err := CheckPhase(t, "from", in.From); err != nil {
		return nil, next, faults, err
	}
	if in.Checkpoint != "" {
		if found.Checkpoint, err = s.checkpoint(ctx, sessionID, in.Checkpoint); err != nil {
			return nil, next, faults, err
		}
	}
	if l, err = s.launcher(ctx); err != nil {
		return l, next, faults, err
	}
	next = found.Fork(sessionID, t, in.From)
	if in.As != "" {
		if err := checkChosen(ctx, "as", t.Name, in.As); err != nil {
			return l, next, faults, err
		}
	}
	next.ID = cmp.Or(in.As, launch.NewID(t.Name, s.Now()))
	return l, next, faults, l.Check(ctx, next)
}

// checkpoint is one of a session's readable checkpoints.
func (s Starts) checkpoint(ctx context.Context, sessionID, which string) (store.StoredCheckpoint, error) {
	st, key, err := s.InStore(ctx, sessionID)
	if err != nil {
		return store.StoredCheckpoint{}, err
	}
	all, _, err := chain(ctx, st, key)
	if err != nil {
		return store.StoredCheckpoint{}, err
	}
	return checkpointOf(all, sessionID, which)
}
