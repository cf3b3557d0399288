package service

import (
	"context"
	"fmt"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// orphanLimit bounds how long a starting worker searches for sessions that
// Temporal has lost.
const orphanLimit = time.Minute

// listOrphans logs the unfinished sessions of the store that Temporal does not have,
// and the command that resumes each.
func (w *Worker) listOrphans(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, orphanLimit)
	defer cancel()
	open, err := w.store.State.Sessions(ctx, state.Filter{Namespace: w.Connection.Namespace, Status: session.OpenStates})
	for _, s := range open {
		_, missing := w.Connection.DescribeWorkflowExecution(ctx, s.Session, "")
		switch {
		case temporalutil.NotFound(missing):
			w.Logger.Warn("Temporal has lost an open session; its finished work is in the store", "session", s.Session,
				"status", s.Status, "go_on_with", fmt.Sprintf("maestro resume %s", s.Session))
		case missing != nil:
			err = missing
		}
	}
	if err != nil {
		w.Logger.Warn("cannot check whether Temporal still has every open session", "error", err)
	}
}
