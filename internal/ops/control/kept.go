package control

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/launch"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// Unknown is the error that there is no such session, with the session that the caller may have meant.
func (b *Base) Unknown(ctx context.Context, sessionID string) error {
	where := "the server's store"
	if !b.Serves {
		where = fmt.Sprintf("the store in %s (namespace %s)", b.Store.Dir(), b.Namespace)
	}
	return &Error{
		Problem{Kind: NotFound, Session: sessionID, Reason: UnknownSession},
		fmt.Errorf("session %q not found in %s%s", sessionID, where, textfmt.DidYouMean(sessionID, b.others(ctx))),
	}
}

// Damage describes the data of a session that cannot be read; empty: none. All other fields are
// from the rest.
type Damage struct {
	Damage string `json:"damage,omitempty"`
}

// kept is the data of a session in the store: its newest readable checkpoint.
type kept struct {
	store.StoredCheckpoint
	Damage
	store *store.Store
	key   session.Key
	// team is set only by keptTeam.
	team spec.Team
}

// InStore is the key of a session that the store has and the caller may view.
func (b *Base) InStore(ctx context.Context, sessionID string) (*store.Store, session.Key, error) {
	key := b.key(sessionID)
	if err := invalid("session", spec.CheckSession(sessionID)); err != nil {
		return nil, key, err
	}
	if err := b.may(ctx, access.View, sessionID); err != nil {
		return nil, key, err
	}
	known, err := b.Store.State.HasSession(ctx, key)
	if err != nil {
		return nil, key, err
	}
	if !known {
		return nil, key, b.Unknown(ctx, sessionID)
	}
	return b.Store, key, nil
}

// others lists the store's sessions that the caller may view.
func (b *Base) others(ctx context.Context) (ids []string) {
	if access.Check(ctx, access.View, access.AllTeams) == nil { // their teams need not be read
		ids, _ = b.Store.State.SessionNames(ctx, b.Namespace)
		return ids
	}
	may := access.Visible(ctx)
	stored, _ := b.Store.State.Sessions(ctx, state.Filter{Namespace: b.Namespace}) // for a suggestion
	for _, e := range stored {
		if may(e.Team) {
			ids = append(ids, e.Session)
		}
	}
	slices.Sort(ids)
	return ids
}

// chain lists a session's readable checkpoints, newest first.
func chain(ctx context.Context, s *store.Store, key session.Key) ([]store.StoredCheckpoint, Damage, error) {
	all, err := s.Checkpoints(ctx, key)
	damage, err := damageOf(key, len(all) > 0, err)
	return all, damage, err
}

// damageOf separates the damage of some checkpoints, if others can be read, from other errors.
func damageOf(key session.Key, readable bool, err error) (d Damage, _ error) {
	damaged := errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrNotFound)
	switch {
	case err != nil && !damaged:
		return d, err
	case !readable:
		return d, conflictf(key.Session, "%w", errors.Join(fmt.Errorf("session %s has no readable checkpoint", key.Session), err))
	case damaged:
		d.Damage = err.Error()
	}
	return d, nil
}

// kept reads the data of a session that the caller may view from the store.
func (b *Base) kept(ctx context.Context, sessionID string) (kept, error) {
	s, key, err := b.InStore(ctx, sessionID)
	if err != nil {
		return kept{}, err
	}
	newest, err := s.Newest(ctx, key)
	damage, err := damageOf(key, newest.Name != "", err)
	if err != nil {
		return kept{}, err
	}
	return kept{StoredCheckpoint: newest, Damage: damage, store: s, key: key}, nil
}

// TeamOf is the team of a session's newest checkpoint that can be read.
func (b *Base) TeamOf(ctx context.Context, sessionID string) (spec.Team, Damage, error) {
	k, err := b.keptTeam(ctx, sessionID)
	return k.team, k.Damage, err
}

// keptTeam reads the data of a session, and its team, from the store.
func (b *Base) keptTeam(ctx context.Context, sessionID string) (kept, error) {
	k, err := b.kept(ctx, sessionID)
	if err != nil {
		return k, err
	}
	if k.team, err = launch.TeamOf(ctx, k.store, k.StoredCheckpoint); err != nil {
		return k, conflictf(sessionID, "%w", err)
	}
	return k, nil
}

// source is the origin of the session's workspace; zero if it is unknown.
func (k kept) source(ctx context.Context) session.Source {
	e, err := k.store.State.Execution(ctx, k.key)
	if err != nil || e.Course.Source == nil {
		return session.Source{}
	}
	return *e.Course.Source
}

// CheckPhase rejects a phase that the team does not have. field is the input with the phase.
func CheckPhase(t spec.Team, field, phase string) error {
	if _, ok := t.Phase(phase); ok {
		return nil
	}
	hint := textfmt.DidYouMean(phase, t.PhaseNames())
	if hint == "" {
		hint = "; it has " + textfmt.FirstOf(t.PhaseNames(), 8)
	}
	return invalidf(field, "phase %q not found in team %s%s", textfmt.Shorten(phase, 80), t.Name, hint)
}
