package control

import (
	"context"
	"errors"

	"github.com/maestro-hive/maestro/internal/ops/launch"
)

// repeatedID is the id of the session of a start or fork without one, which is the same for each
// try; empty: the caller gave no key.
func repeatedID(ctx context.Context, team string, start ...any) string {
	id := changeID(ctx, start...)
	if id == "" {
		return ""
	}
	return team + "-" + id
}

// isTaken reports whether a start failed because an earlier try has started the session. own is the
// session's id if it is that of each try.
func isTaken(err error, own string) bool {
	taken, ok := errors.AsType[*launch.TakenError](err)
	return ok && taken.Session == own
}

// startedBefore is the document of a session that an earlier try has started.
func (s Starts) startedBefore(ctx context.Context, l *launch.Launcher, id string) (Started, error) {
	w, err := s.watcher(id)
	if err != nil {
		return Started{}, err
	}
	v, err := w.Look(ctx)
	if err != nil {
		return Started{}, looked(id, err)
	}
	return awaitAdmission(ctx, l, launch.Started{Session: id, RunID: v.RunID})
}
