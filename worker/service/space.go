package service

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/diskspace"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/workdir"
)

// freeing returns a function that frees space on the disk of a directory in several ways, until it
// is not full. The function reports whether it has freed any.
func freeing(dir string, ways ...func(context.Context) bool) func(context.Context) bool {
	return func(ctx context.Context) (freed bool) {
		for _, way := range ways {
			if !way(ctx) {
				continue
			}
			freed = true
			if left, err := diskspace.Of(dir); err == nil && !left.IsLow() {
				break
			}
		}
		return freed
	}
}

// removeFinishedShare bounds the part of the time in which a full disk's directories are listed and
// records are read: 1/removeFinishedShare.
const removeFinishedShare = 20

// finishedWork are the working directories of finished assignments. Their results are in the store,
// so only files that are not collected, such as dependencies, have to be made again if the work
// is sent back.
type finishedWork struct {
	store  *store.Store
	dirs   *workdir.Dirs
	logger *slog.Logger
	clock  func() time.Time

	mu   sync.Mutex
	last time.Time
	took time.Duration
}

// free removes directories until the disk is not full. It reports whether there were any.
func (f *finishedWork) free(ctx context.Context) (freed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	began := f.clock()
	if began.Sub(f.last) < removeFinishedShare*f.took {
		return false
	}
	defer func() { f.last, f.took = f.clock(), f.clock().Sub(began) }()
	keys, _ := f.dirs.Sessions()
	for _, key := range keys {
		ids, _ := f.dirs.Assignments(key)
		for _, id := range ids {
			if ctx.Err() != nil {
				return freed
			}
			removed, err := f.remove(key, id)
			if err != nil {
				f.logger.Warn("the directory of finished work could not be removed from a full disk", "session", key.Session, "assignment", id, "error", err)
			}
			freed = freed || removed
			if left, err := diskspace.Of(f.dirs.Root()); removed && err == nil && !left.IsLow() {
				return true
			}
		}
	}
	return freed
}

// remove removes the directory of an assignment if it is finished and no process uses it.
func (f *finishedWork) remove(key session.Key, id spec.AssignmentID) (removed bool, err error) {
	lock, ok, err := f.store.Lock(key, id)
	if err != nil || !ok {
		return false, err
	}
	defer lock.Unlock()
	record, err := f.store.Record(key, id)
	if n := len(record.Rounds); err != nil || n == 0 || record.Rounds[n-1].Result == nil {
		return false, nil //nolint:nilerr // it may have work that is nowhere else
	}
	return f.dirs.RemoveAssignment(key, id)
}
