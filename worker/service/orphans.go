package service

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/state"
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
	known, err := o.Store.State.Sessions(ctx, state.Filter{Namespace: o.Namespace, Status: session.OpenStates})
	if err != nil {
		o.Logger.Warn("cannot check whether Temporal still has every open session", "error", err)
	}
	for _, e := range known {
		gone, err := isGone(ctx, o.Client, e)
		if err != nil {
			o.Logger.Warn("cannot check whether Temporal still has every session of the store", "error", err)
			return
		}
		if gone {
			o.Logger.Warn("Temporal has lost an open session; its finished work is in the store", "session", e.Session,
				"status", e.Status, "go_on_with", fmt.Sprintf("maestro resume %s", e.Session))
		}
	}
}

func isGone(ctx context.Context, c client.Client, e state.Session) (bool, error) {
	_, err := c.DescribeWorkflowExecution(ctx, e.Session, "")
	if temporalutil.NotFound(err) {
		return true, nil
	}
	return false, err
}
