package procgroup

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// leased is a lock that other hosts respect while its lease lasts.
type leased struct {
	*os.File
	lease session.Lease
}

func (l *leased) Unlock()               {}
func (l *leased) Lease() *session.Lease { return &l.lease }

// TestAProcessEndsWithItsLease unless the lease is extended: then another host may do its work. The shim ends it without the
// worker, which may be stopped.
func TestAProcessEndsWithItsLease(t *testing.T) {
	t.Parallel()
	l := &Launcher{Secrets: secrets.New(nil), MaxOutput: 1 << 20, Threads: Threads{Each: 1000}, MaxFile: 1 << 30}
	run := func(extend bool) Result {
		f, err := os.Create(filepath.Join(t.TempDir(), "lock"))
		require.NoError(t, err)
		defer f.Close()
		lock := &leased{File: f}
		lock.lease.Extend(time.Now().Add(2 * time.Second))
		if extend {
			ticker := time.NewTicker(time.Second)
			defer ticker.Stop()
			go func() {
				for range ticker.C {
					lock.lease.Extend(time.Now().Add(4 * time.Second))
				}
			}()
		}
		return l.Run(t.Context(), Process{Argv: []string{"/bin/sh", "-c", "sleep 4; echo done"}, Dir: "/", Lock: lock})
	}
	ended := make(chan Result)
	go func() { ended <- run(true) }()
	lapsed := run(false)
	require.ErrorContains(t, lapsed.Err, "another host may do this work")
	require.True(t, lapsed.LeaseEnded)
	require.False(t, lapsed.Started, "it is not the agent's fault")
	extended := <-ended
	require.NoError(t, extended.Err)
	require.True(t, extended.EndedItself())
	require.Zero(t, extended.Exit)
}
