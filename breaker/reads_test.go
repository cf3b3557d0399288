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
		readings := 0
		slow := func(_ context.Context, name string) (View, error) {
			readings++
			began := time.Now()
			time.Sleep(10 * time.Millisecond)
			return View{Name: name, State: State{Generation: began.UnixNano()}}, nil
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
				assert.GreaterOrEqual(t, view.State.Generation, came.UnixNano(), "reader %d", i)
			})
		}
		all.Wait()
		require.Equal(t, 3, readings)
	})
}

// TestAQuietBreakerIsReadOncePerMoment: not after a change by the same worker, nor once it
// has counted a failure, and an error is not kept.
func TestAQuietBreakerIsReadOncePerMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r reads
		var state State
		var failure error
		began := 0
		read := func(_ context.Context, name string) (View, error) {
			began++
			time.Sleep(10 * time.Millisecond)
			return View{Name: name, State: state}, failure
		}
		reads := func(what string, want int) {
			t.Helper()
			before := began
			view, err := r.recent(t.Context(), "a", read)
			require.Equal(t, failure, err, what)
			require.Equal(t, want, began-before, what)
			if err == nil && want > 0 {
				require.Equal(t, state, view.State, what)
			}
		}
		failure = context.DeadlineExceeded
		reads("an error", 1)
		failure = nil
		reads("after an error", 1)
		reads("at once", 0)
		time.Sleep(QuietFor - 11*time.Millisecond)
		synctest.Wait()
		reads("just before it is too old", 0)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		reads("too old", 1)
		r.changed("b")
		reads("another breaker's change", 0)
		r.changed("a")
		reads("its own worker's change", 1)
		reads("at once after that", 0)
		state = State{Failures: 1}
		time.Sleep(QuietFor)
		synctest.Wait()
		reads("a failure", 1)
		reads("at once after a failure", 1)
		state = State{Open: true}
		reads("open", 1)
		reads("at once while it is open", 1)

		state = State{}
		go func() {
			time.Sleep(5 * time.Millisecond)
			r.changed("a")
		}()
		reads("changed while it is read", 1)
		reads("after that", 1)
	})
}
