package control

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCallersShareAnAnswer has many callers ask at once, and later ones while the answer is fresh.
func TestCallersShareAnAnswer(t *testing.T) {
	t.Parallel()
	var s shared[int]
	var asked atomic.Int64
	clock := time.Now()
	now := func() time.Time { return clock }
	ask := func(context.Context) (int, error) { return int(asked.Add(1)), nil }
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			n, _, err := s.get(context.Background(), now, time.Second, ask)
			if n != 1 || err != nil {
				t.Error(n, err)
			}
		})
	}
	all.Wait()
	clock = clock.Add(2 * time.Second)
	_, _, err := s.get(t.Context(), now, time.Second, func(context.Context) (int, error) { return 0, errors.New("away") })
	require.Error(t, err)
	n, at, err := s.get(t.Context(), now, time.Second, ask)
	require.NoError(t, err)
	require.Equal(t, 2, n, "an error is not kept")
	require.Equal(t, clock, at)
}
