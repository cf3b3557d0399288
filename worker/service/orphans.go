package service

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/temporalutil"
)

// orphanLimit bounds how long a starting worker searches for sessions that
// Temporal has lost.
const orphanLimit = time.Minute

// listOrphans logs the unfinished sessions of the store that Temporal does not have,
// and the command that resumes each.
func listOrphans(ctx context.Context, o options) {
	ctx, cancel := context.WithTimeout(ctx, orphanLimit)
	defer cancel()
	known, err := o.Store.Executions(ctx, o.Namespace)
	if err != nil {
		o.Logger.Warn("some sessions of the store cannot be read; see `maestro checkpoints verify --all`", "error", err)
	}
	for _, e := range known {
		if e.Status.Status.Closed() {
			continue
		}
		gone, err := isGone(ctx, o.Client, e)
		if err != nil {
			o.Logger.Warn("cannot check whether Temporal still has every session of the store", "error", err)
			return
		}
		if gone {
			o.Logger.Warn("Temporal has lost an open session; its finished work is in the store", "session", e.Session,
				"status", e.Status.Status, "go_on_with", fmt.Sprintf("maestro resume %s", e.Session))
		}
	}
}

func isGone(ctx context.Context, c client.Client, e session.Execution) (bool, error) {
	_, err := c.DescribeWorkflowExecution(ctx, e.Session, "")
	if temporalutil.NotFound(err) {
		return true, nil
	}
	return false, err
}
