package service

import (
	"context"
	"errors"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/launch"
)

const (
	// restartClaim is how long a session that is restarted is left to the worker that has claimed it.
	restartClaim = time.Minute
	// restartCheck is how often a worker looks for sessions that could not be restarted yet.
	restartCheck = 5 * time.Second
)

// restartAll starts a new run of each session that had not ended when a backup was restored, and returns whether some are
// left: no worker may serve their team yet.
func (w *Worker) restartAll(ctx context.Context) (pending bool) {
	l := launch.Launcher{Conn: w.Connection, Store: w.store, By: session.Starter{StartedBy: w.identity}, Now: w.Clock}
	for {
		id, pending, err := w.store.State.ClaimRestart(ctx, w.Connection.Namespace, restartClaim)
		if err != nil {
			w.Logger.Warn("sessions of a restored backup cannot be looked for", "error", err)
			return true
		}
		if id == "" {
			return pending
		}
		err = l.Restart(ctx, id)
		var none *launch.NoCheckpointError
		if err == nil || errors.As(err, &none) {
			err = errors.Join(err, w.store.State.EndRestart(ctx, session.Key{Namespace: w.Connection.Namespace, Session: id}))
		}
		if err != nil {
			w.Logger.Warn("a session of a restored backup could not be restarted", "session", id, "error", err)
			continue
		}
		w.Logger.Info("restarted a session that had not ended when a backup was restored", "session", id)
	}
}

// restartRest restarts the sessions that could not be restarted when the worker started, until none is left or ctx ends.
func (w *Worker) restartRest(ctx context.Context) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	every(ctx, restartCheck, func(ctx context.Context) {
		if !w.restartAll(ctx) {
			end()
		}
	})
}
