package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// PruneStoreName is the wire name of [PruneStore].
const PruneStoreName = "prune-store"

// PruneID returns the id of the schedule that prunes a store. It is also the prefix of
// the ids of the workflows that the schedule starts.
func PruneID(store string) string { return "maestro-prune/" + store }

// How long one prune may take, and how often it is tried again before the next
// turn of the schedule does.
const (
	pruneTimeout  = time.Hour
	pruneAttempts = 3
)

// PruneStore prunes a store once: what a schedule starts. It fails when the
// store cannot be used, or is damaged; the next turn tries again.
func PruneStore(ctx workflow.Context, in activities.PruneInput) (session.PruneReport, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: pruneTimeout,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Minute, MaximumAttempts: pruneAttempts},
		Summary:             "remove old checkpoints, and what nothing needs any more",
	})
	var report session.PruneReport
	err := workflow.ExecuteActivity(ctx, string(activities.PruneName), in).Get(ctx, &report)
	return report, err
}
