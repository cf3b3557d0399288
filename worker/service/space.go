package service

import (
	"context"
	"log/slog"
	"time"

	"github.com/maestro-hive/maestro/internal/diskspace"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/state"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/workdir"
)

// freeEvery is how often space is searched for in vain: on a full disk all attempts ask for it.
const freeEvery = time.Second

// space frees space on a full disk, for one caller at a time.
type space struct {
	// dir is a directory on the disk.
	dir string
	// ways are tried in this order until the disk is not full. Each reports whether it has freed
	// any space.
	ways  []func(context.Context) bool
	clock func() time.Time

	last  time.Time
	freed bool
}

// free frees space. It reports whether it has freed any.
func (s *space) free(ctx context.Context) bool {
	if !s.freed && s.clock().Sub(s.last) < freeEvery {
		return false
	}
	s.freed = false
	for _, way := range s.ways {
		if !way(ctx) {
			continue
		}
		s.freed = true
		if left, err := diskspace.Of(s.dir); err == nil && !left.IsLow() {
			break
		}
	}
	s.last = s.clock()
	return s.freed
}

// removeFinishedShare bounds the part of the time in which finished work is searched for in vain:
// 1/removeFinishedShare.
const removeFinishedShare = 20

// finishedWork are the working directories of finished assignments. Their results are in the store,
// so only files that are not collected, such as dependencies, have to be made again if the work
// is sent back.
type finishedWork struct {
	store  *store.Store
	dirs   *workdir.Dirs
	logger *slog.Logger
	clock  func() time.Time

	last time.Time
	took time.Duration
}

// free removes directories until the disk is not full. It reports whether there were any.
func (f *finishedWork) free(ctx context.Context) (freed bool) {
	began := f.clock()
	if began.Sub(f.last) < removeFinishedShare*f.took {
		return false
	}
	defer func() {
		if f.last, f.took = f.clock(), f.clock().Sub(began); freed {
			f.took = 0
		}
	}()
	keys, _ := f.dirs.Sessions()
	for _, key := range keys {
		ids, _ := f.dirs.Assignments(key)
		for _, id := range ids {
			if ctx.Err() != nil {
				return freed
			}
			removed, err := f.remove(ctx, key, id)
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
func (f *finishedWork) remove(ctx context.Context, key session.Key, id spec.AssignmentID) (removed bool, err error) {
	lock, ok, err := f.store.Lock(key, id)
	if err != nil || !ok {
		return false, err
	}
	defer lock.Unlock()
	record, err := f.store.State.Record(ctx, state.Assignment{Key: key, AssignmentID: id})
	if n := len(record.Rounds); err != nil || n == 0 || record.Rounds[n-1].Result == nil {
		return false, nil //nolint:nilerr // it may have work that is nowhere else
	}
	return f.dirs.RemoveAssignment(key, id)
}
