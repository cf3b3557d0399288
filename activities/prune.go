package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// PruneName removes data that a store does not need any more; see [Pruning.Prune].
const PruneName Name = "prune-store"

// foreignStore is the type of the error of an activity that is for another store.
const foreignStore = "ForeignStore"

// PruneInput is the input of PruneName. A zero field stands for the worker file's
// retention, or else for the store's default.
type PruneInput struct {
	// Store is the id of the store to prune.
	Store     string           `json:"store"`
	Keep      int              `json:"keep,omitempty"`
	OlderThan textfmt.Duration `json:"older_than,omitempty"`
}

// Prunable is a store that can be pruned.
type Prunable interface {
	// ID is the store's id.
	ID() string
	// Prune removes old checkpoints of closed sessions and unreferenced blobs.
	// Sessions may run meanwhile.
	Prune(ctx context.Context, o session.PruneOptions) (session.PruneReport, error)
}

// OpenSessions lists the sessions of a store that Temporal runs, and since when.
type OpenSessions func(ctx context.Context) (map[session.Key]time.Time, error)

// Pruning prunes the store.
type Pruning struct {
	Store Prunable
	// WorkDirs are the working directories of the store's sessions on this host.
	WorkDirs  session.PrunableDirs
	Open      OpenSessions
	Namespace string
	// Keep and OlderThan are the worker file's retention.
	Keep      int
	OlderThan textfmt.Duration
}

// Prune prunes the store and returns the numbers of removed objects. It may be
// repeated at any time.
func (p *Pruning) Prune(ctx context.Context, in PruneInput) (session.PruneReport, error) {
	if in.Store != p.Store.ID() {
		return session.PruneReport{}, temporal.NewNonRetryableApplicationError(
			"the prune is for store "+in.Store+", but this worker serves store "+p.Store.ID(), foreignStore, nil)
	}
	open, err := p.Open(ctx)
	if err != nil {
		return session.PruneReport{}, temporal.NewApplicationErrorWithOptions(
			"list running sessions: "+err.Error(), session.StoreUnusable, temporal.ApplicationErrorOptions{Cause: err})
	}
	o := session.PruneOptions{
		Keep: in.Keep, OlderThan: in.OlderThan.Std(), Namespace: p.Namespace, Running: open,
		WorkDirs: []session.PrunableDirs{p.WorkDirs},
	}
	if o.Keep == 0 {
		o.Keep = p.Keep
	}
	if o.OlderThan == 0 {
		o.OlderThan = p.OlderThan.Std()
	}
	report, err := p.Store.Prune(ctx, o)
	report.Pruned, report.Spared = nil, nil
	return report, storeError(ctx, err)
}
