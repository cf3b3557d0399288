package control

import (
	"context"
	"crypto/sha256"
	"errors"

	"github.com/maestro-hive/maestro/internal/ops/launch"
)

// repeatedID is the id of the session of a start or fork without one, which is the same for each try, also of one around
// midnight; empty: the caller gave no key.
func (s Starts) repeatedID(ctx context.Context, team string, start ...any) string {
	id := changeID(ctx, start...)
	if id == "" {
		return ""
	}
	sum, now := sha256.Sum256([]byte(id)), s.Now()
	yesterday := launch.IDFor(team, now.AddDate(0, 0, -1), sum)
	if known, err := s.Store.State.HasSession(ctx, s.key(yesterday)); err == nil && known {
		return yesterday
	}
	return launch.IDFor(team, now, sum)
}

// isTaken reports whether a start failed because an earlier try has started the session. own is the
// session's id if it is that of each try.
func isTaken(err error, own string) bool {
	taken, ok := errors.AsType[*launch.TakenError](err)
	return ok && taken.Session == own
}

// startedBefore is the document of a session that an earlier try has started.
func (s Starts) startedBefore(ctx context.Context, l *launch.Launcher, id string) (Started, error) {
	w, err := s.reader(id)
	if err != nil {
		return Started{}, err
	}
	v, err := w.Look(ctx)
	if err != nil {
		return Started{}, s.asNotFound(ctx, id, err)
	}
	return awaitAdmission(ctx, l, launch.Started{Session: id, RunID: v.RunID})
}
