package service

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/maestro-hive/maestro/internal/platform/retryafter"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/backup"
)

const (
	// backupCheck is how often the worker looks whether a backup is due.
	backupCheck = 10 * time.Second
	// backupRetry is the time after a failed backup.
	backupRetry = 10 * time.Minute
)

// backUp backs up the store by the schedule of the worker file until ctx ends.
func (w *Worker) backUp(ctx context.Context) {
	for wait := time.Duration(0); retryafter.Wait(ctx, wait); {
		wait = backupCheck
		to := w.plan.Load().config.Backup
		if to == nil {
			continue
		}
		report, err := backup.Run(ctx, w.store, to.To, backup.Options{Clock: w.Clock, Keep: to.Keep, Every: cmp.Or(to.Every.Std(),
			backup.DefaultEvery)})
		switch {
		case err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrPruning):
			w.Logger.Error("the store could not be backed up", "error", err, "again_in", backupRetry.String())
			wait = backupRetry
		case report.Database != "":
			w.Logger.Info("the store is backed up", "to", to.To, "database", report.Database, "blobs", report.Blobs, "copied",
				report.Copied)
		}
	}
}
