package control

import (
	"context"
	"sync"
	"time"
)

// sharedPatience limits the computation of a shared answer.
const sharedPatience = 2 * time.Minute

// shared is an answer that takes some time to compute. Callers wait for one computation, and later ones get
// its result while it is fresh. Its zero value is ready.
type shared[T any] struct {
	mu    sync.Mutex
	value T
	at    time.Time // when the value was asked for; zero: there is none
}

// get returns an answer that is not older than fresh, or computes one. An error is not kept.
func (s *shared[T]) get(
	ctx context.Context, now func() time.Time, fresh time.Duration, ask func(context.Context) (T, error),
) (T, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := now()
	if !s.at.IsZero() && at.Sub(s.at).Abs() <= fresh {
		return s.value, s.at, nil
	}
	bounded, cancel := context.WithTimeout(ctx, sharedPatience)
	defer cancel()
	value, err := ask(bounded)
	if err == nil {
		s.value, s.at = value, at
	}
	return value, at, err
}
