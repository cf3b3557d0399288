package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

// Lock takes the lock of an assignment's executor. ok is false while another goroutine, process or host holds it. The lock ends
// when it is unlocked, or when its process and all processes that have inherited the descriptor have ended; for other hosts, it
// ends with its lease. What a late executor writes is refused in any case.
func (s *Store) Lock(ctx context.Context, key session.Key, id spec.AssignmentID) (lock session.Lock, ok bool, err error) {
	if err := errors.Join(id.Check(), key.Check()); err != nil {
		return nil, false, err
	}
	name := key.Namespace + "/" + key.Session + "/" + id.Phase + "." + id.Persona
	held, ok, err := s.files.Hold(name)
	if err != nil {
		return nil, false, fmt.Errorf("lock %s of session %s: %w", id, key.Session, err)
	}
	switch {
	case !ok:
		return nil, false, nil // a nil *storage.Hold would be a lock that is not nil
	case s.State.Shared():
		return s.lease(ctx, held, name)
	}
	return held, true, nil
}

// leasedLock is a lock that other hosts respect, too. It renews its lease until it is unlocked.
type leasedLock struct {
	*storage.Hold
	db    *state.DB
	of    state.LeaseHolder
	lease session.Lease
	stop  context.CancelFunc
	ended sync.WaitGroup
}

// lease takes the lease of a lock that this host holds.
func (s *Store) lease(ctx context.Context, held *storage.Hold, name string) (session.Lock, bool, error) {
	l := &leasedLock{Hold: held, db: s.State, of: state.LeaseHolder{Name: name, Host: s.host, Holder: rand.Text()}}
	asked := time.Now() //nolint:forbidigo // leases last in real time
	if ok, err := s.State.Acquire(ctx, l.of, session.LeaseLasts); err != nil || !ok {
		held.Unlock()
		return nil, false, err
	}
	l.lease.Extend(asked.Add(session.LeaseHolds))
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	l.ended.Go(func() { l.renew(renewing) })
	return l, true, nil
}

// Lease implements [session.Lock].
func (l *leasedLock) Lease() *session.Lease { return &l.lease }

// renew renews the lease until its context ends, or another host has taken it.
func (l *leasedLock) renew(ctx context.Context) {
	ticker := time.NewTicker(session.LeaseRenewEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		asked := time.Now() //nolint:forbidigo // leases last in real time
		bounded, cancel := context.WithTimeout(ctx, session.LeaseRenewEvery)
		ok, err := l.db.Renew(bounded, l.of, session.LeaseLasts)
		cancel()
		switch {
		case err != nil: // the database is away: the next one may succeed
		case !ok:
			l.lease.Lose()
			return
		default:
			l.lease.Extend(asked.Add(session.LeaseHolds))
		}
	}
}

// releaseLimit bounds the release of a lease. One that is not released ends by itself.
const releaseLimit = 5 * time.Second

// Unlock releases the lease, then the lock.
func (l *leasedLock) Unlock() {
	l.stop()
	l.ended.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), releaseLimit)
	defer cancel()
	_ = l.db.Release(ctx, l.of)
	l.Hold.Unlock()
}
