package service

import (
	"context"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/diskspace"
	"github.com/maestro-hive/maestro/internal/sandbox/caches"
	"github.com/maestro-hive/maestro/internal/store/state"
)

const (
	// freeEvery is how often space is searched for in vain: on a full disk all attempts ask for it.
	freeEvery = time.Second
	// freeShare bounds the part of the time in which it is searched for in vain: 1/freeShare.
	freeShare = 20
)

// space frees space on a full disk, for one caller at a time.
type space struct {
	plan *plan
	// next is when space is searched for again after a search in vain.
	next time.Time
}

// free frees space until the disk is not full. It reports whether it has freed any.
func (s *space) free(ctx context.Context) (freed bool) {
	began := s.plan.worker.Clock()
	if began.Before(s.next) {
		return false
	}
	for _, way := range []func(context.Context) bool{
		s.freeLayers, s.freeWork, s.plan.caches.Free,
		func(context.Context) bool { return caches.FreeBases(s.plan.besideAgents("caches")) },
	} {
		if !way(ctx) {
			continue
		}
		freed = true
		if !isLow(s.plan.besideAgents("")) {
			return true
		}
	}
	if !freed {
		now := s.plan.worker.Clock()
		s.next = now.Add(max(freeEvery, freeShare*now.Sub(began)))
	}
	return freed
}

func isLow(dir string) bool {
	left, err := diskspace.Of(dir)
	return err != nil || left.IsLow()
}

// freeLayers removes all unused layers. It reports whether there were any.
func (s *space) freeLayers(ctx context.Context) bool {
	if s.plan.layers == nil {
		return false
	}
	freed, err := s.plan.layers.Free(ctx)
	if err != nil {
		s.plan.worker.Logger.Warn("unused layers could not be removed from a full disk", "error", err)
	}
	return freed
}

// freeWork removes working directories of finished assignments until the disk is not full. Their results are in the
// store, so only files that are not collected, such as dependencies, have to be made again if the work is sent back. It
// reports whether there were any.
func (s *space) freeWork(ctx context.Context) (freed bool) {
	dirs := s.plan.workDirs
	keys, _ := dirs.Sessions()
	for _, key := range keys {
		ids, _ := dirs.Assignments(key)
		for _, id := range ids {
			if ctx.Err() != nil {
				return freed
			}
			removed, err := s.remove(ctx, key, id)
			if err != nil {
				s.plan.worker.Logger.Warn("the directory of finished work could not be removed from a full disk", "session", key.Session,
					"assignment", id, "error", err)
			}
			if freed = freed || removed; removed && !isLow(dirs.Root()) {
				return true
			}
		}
	}
	return freed
}

// remove removes the directory of an assignment if it is finished and no process uses it.
func (s *space) remove(ctx context.Context, key session.Key, id spec.AssignmentID) (removed bool, err error) {
	lock, ok, err := s.plan.worker.store.Lock(ctx, key, id)
	if err != nil || !ok {
		return false, err
	}
	defer lock.Unlock()
	record, err := s.plan.worker.store.State.Record(ctx, state.Assignment{Key: key, AssignmentID: id})
	if n := len(record.Rounds); err != nil || n == 0 || record.Rounds[n-1].Result == nil {
		return false, nil //nolint:nilerr // it may have work that is nowhere else
	}
	return s.plan.workDirs.RemoveAssignment(key, id)
}
