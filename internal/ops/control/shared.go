package control

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// viewOf is the roles of the caller of an answer, and the state of the store.
type viewOf struct {
	grants string
	at     state.Position
}

// seenBy is an answer about the store that callers with the same roles share, for the time of fresh
// while nothing in the store changes. A command computes it once.
func seenBy[T any](ctx context.Context, b *Base, kept *shares[viewOf, T], fresh time.Duration, ask func(context.Context) (T, error)) (T, error) {
	if !b.Serves {
		return ask(ctx)
	}
	at, err := b.Store.State.LastChange(ctx)
	if err != nil {
		return ask(ctx)
	}
	caller, _ := access.Of(ctx)
	kept.drop(func(about viewOf) bool { return about.at != at })
	value, _, err := kept.get(viewOf{strings.Join(caller.Roles.Grants(), " "), at}).get(ctx, b.Now, fresh, ask)
	return value, err
}

// sharedPatience limits the computation of a shared answer.
const sharedPatience = 2 * time.Minute

// shared is an answer that takes some time to compute: concurrent callers wait for one computation,
// and later ones get its result while it is fresh. Its zero value is ready. Only callers that
// waited get an error.
type shared[T any] struct {
	calls singleflight.Group

	mu    sync.Mutex
	value T
	at    time.Time // when the value was asked for; zero: there is none
}

// last is the last answer.
func (s *shared[T]) last() (T, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value, s.at
}

// get returns an answer that is not older than fresh, or computes one. A caller whose context ends
// gets the previous one, if there is one.
func (s *shared[T]) get(ctx context.Context, now func() time.Time, fresh time.Duration, ask func(context.Context) (T, error)) (T, time.Time, error) {
	isFresh := func(at time.Time) bool { return !at.IsZero() && now().Sub(at).Abs() <= fresh }
	if value, at := s.last(); isFresh(at) {
		return value, at, nil
	}
	asked := s.calls.DoChan("", func() (any, error) { // goes on if its caller does not wait
		if _, at := s.last(); isFresh(at) { // since this caller has looked
			return nil, nil
		}
		at := now()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), sharedPatience)
		defer cancel()
		value, err := ask(bounded)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.value, s.at = value, at
		return nil, nil
	})
	select {
	case answer := <-asked:
		value, at := s.last()
		return value, at, answer.Err
	case <-ctx.Done():
		value, at := s.last()
		if at.IsZero() {
			return value, at, ctx.Err()
		}
		return value, at, nil
	}
}

// maxShares limits how many answers of a kind are kept.
const maxShares = 1000

// shares are shared answers by their subject. Its zero value is ready.
type shares[K comparable, T any] struct {
	mu sync.Mutex
	of map[K]*shared[T]
}

// drop removes the answers for some subjects.
func (s *shares[K, T]) drop(isOld func(about K) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.of, func(about K, _ *shared[T]) bool { return isOld(about) })
}

// get is the answer for a subject. Old answers are removed when there are many.
func (s *shares[K, T]) get(about K) *shared[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil || len(s.of) >= maxShares {
		s.of = map[K]*shared[T]{}
	}
	if s.of[about] == nil {
		s.of[about] = &shared[T]{}
	}
	return s.of[about]
}
