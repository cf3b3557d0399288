package control

import (
	"context"
	"sync"
	"time"
)

// sharedPatience bounds how long an answer is waited for that callers share.
const sharedPatience = 2 * time.Minute

// shared is an answer that takes a while: callers at the same time wait for one, and others get it for
// as long as it is fresh. Its zero value is ready. An error is only for those that waited.
type shared[T any] struct {
	mu    sync.Mutex
	value T
	at    time.Time
	// making is closed when the answer that is being made is there.
	making chan struct{}
	err    error
}

// get returns an answer that is at most so old, or makes one. A caller that cannot wait for it gets the
// one before, if there is one.
func (s *shared[T]) get(ctx context.Context, now func() time.Time, fresh time.Duration, ask func(context.Context) (T, error)) (T, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.at.IsZero() && now().Sub(s.at).Abs() <= fresh {
		return s.value, s.at, nil
	}
	if s.making == nil {
		s.begin(ctx, now, ask)
	}
	made := s.making
	s.mu.Unlock()
	var err error
	select {
	case <-made:
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.mu.Lock()
	switch {
	case err == nil:
		return s.value, s.at, s.err
	case !s.at.IsZero():
		return s.value, s.at, nil
	}
	return s.value, s.at, err
}

// begin makes an answer, also if its caller does not wait for it.
func (s *shared[T]) begin(ctx context.Context, now func() time.Time, ask func(context.Context) (T, error)) {
	done, at := make(chan struct{}), now()
	s.making = done
	go func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), sharedPatience)
		defer cancel()
		value, err := ask(bounded)
		s.mu.Lock()
		defer s.mu.Unlock()
		if err == nil {
			s.value, s.at = value, at
		}
		s.err, s.making = err, nil
		close(done)
	}()
}

// maxShares bounds how many answers are kept of a kind.
const maxShares = 1000

// shares are shared answers by what they are about. Its zero value is ready.
type shares[K comparable, T any] struct {
	mu sync.Mutex
	of map[K]*shared[T]
}

// get is the answer about something. Old ones are forgotten when there are many.
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
