package session_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// TestWaitsAreNoPartOfATime has a timer's function called after as much time without waits, however these overlap.
func TestWaitsAreNoPartOfATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := session.NewPausedTime(time.Now)
		var over atomic.Int64
		timer := w.AfterFunc(10*time.Minute, func() { over.Store(int64(time.Since(began))) })
		defer timer.Stop()
		time.Sleep(5 * time.Minute)
		first := w.Begin()
		time.Sleep(20 * time.Minute) // past the time
		second := w.Begin()
		first()
		time.Sleep(10 * time.Minute)
		second()
		require.Equal(t, 30*time.Minute, w.Total())
		time.Sleep(5*time.Minute - time.Second)
		require.Zero(t, over.Load())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, 40*time.Minute, time.Duration(over.Load()))

		timer.Reset(time.Minute)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, 41*time.Minute+time.Second, time.Duration(over.Load()), "an earlier wait counts once")
	})
}
