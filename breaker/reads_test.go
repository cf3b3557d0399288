package breaker

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReadersShareWhatIsReadAfterTheyCame: none gets what was read before it asked, and
// a reader that gives up keeps no other waiting.
func TestReadersShareWhatIsReadAfterTheyCame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r reads
		var began []time.Time
		slow := func(_ context.Context, name string) (View, error) {
			began = append(began, time.Now())
			time.Sleep(10 * time.Millisecond)
			return View{Name: name, State: State{Generation: int64(len(began))}}, nil
		}
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				came := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), map[bool]time.Duration{true: time.Millisecond, false: time.Minute}[i%5 == 1])
				defer cancel()
				view, err := r.read(ctx, "a", slow)
				if i%5 == 1 {
					assert.ErrorIs(t, err, context.DeadlineExceeded)
					return
				}
				assert.NoError(t, err)
				assert.False(t, began[view.State.Generation-1].Before(came), "reader %d", i)
			})
		}
		all.Wait()
		require.Len(t, began, 3)
	})
}
