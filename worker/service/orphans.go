package service

import (
	"context"
	"fmt"
	"time"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/temporalutil"
)

// orphanLimit bounds what a worker that starts spends on looking for sessions
// that Temporal has lost.
const orphanLimit = time.Minute

// listOrphans lists the sessions of the store that had not ended and are gone from
// Temporal, and how each continues.
func (w *Worker) listOrphans(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, orphanLimit)
	defer cancel()
	logger := w.options.Logger
	known, err := w.options.Store.Executions(ctx, w.options.Namespace)
	if err != nil {
		logger.Warn("some sessions of the store cannot be read; see `maestro checkpoints verify --all`", "error", err)
	}
	for _, e := range known {
		if e.Status.Status.Closed() {
			continue
		}
		gone, err := w.isGone(ctx, e)
		if err != nil {
			logger.Warn("cannot check whether Temporal still has every session of the store", "error", err)
			return
		}
		if gone {
			logger.Warn("Temporal has lost an open session; its finished work is in the store", "session", e.Session,
				"status", e.Status.Status, "go_on_with", fmt.Sprintf("maestro resume %s", e.Session))
		}
	}
}

func (w *Worker) isGone(ctx context.Context, e session.Execution) (bool, error) {
	_, err := w.options.Client.DescribeWorkflowExecution(ctx, e.Session, "")
	if temporalutil.NotFound(err) {
		return true, nil
	}
	return false, err
}
