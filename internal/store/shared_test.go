//go:build system

package store_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/testkit/postgrestest"
)

// TestHostsExcludeEachOther opens one database from several hosts, each with a directory of its own: another host takes an
// assignment when it was given back, or when its lease has ended.
func TestHostsExcludeEachOther(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	proxy := postgrestest.StartProxy(t, server.Address)
	direct := server.NewDatabase()
	content := "file://" + t.TempDir()
	open := func(host, database string) *store.Store {
		o := options()
		o.Clock = time.Now
		o.Location = store.Location{Database: database, Content: content}
		s, err := store.Create(filepath.Join(t.TempDir(), host), o)
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	a, b := open("a", server.URL(proxy.Address, "d1")), open("b", direct)
	require.Equal(t, a.ID(), b.ID())
	require.NotEqual(t, a.HostID(), b.HostID())
	take := func(s *store.Store) (session.Lock, bool) {
		lock, ok, err := s.Lock(t.Context(), webSession, id("backend"))
		require.NoError(t, err)
		return lock, ok
	}
	held, ok := take(a)
	require.True(t, ok)
	_, ok = take(b)
	require.False(t, ok)
	held.Unlock()
	given, ok := take(b)
	require.True(t, ok)
	given.Unlock()

	held, ok = take(a)
	require.True(t, ok)
	defer held.Unlock()
	proxy.SetDown(true) // host a no longer reaches the database
	began := time.Now()
	var taken session.Lock
	require.Eventually(t, func() bool {
		taken, ok = take(b)
		return ok
	}, 2*session.LeaseLasts, time.Second)
	defer taken.Unlock()
	until, _ := held.Lease().Until()
	require.Greater(t, time.Since(began), session.LeaseHolds)
	require.Greater(t, time.Now(), until, "what runs on host a had ended before host b began")
	proxy.SetDown(false)
	require.Eventually(t, func() bool {
		_, lost := held.Lease().Until()
		return lost
	}, session.LeaseLasts, 100*time.Millisecond)

	o := options()
	o.Location = store.Location{Database: direct}
	_, err := store.Create(t.TempDir(), o)
	require.ErrorContains(t, err, "the content of store "+a.ID()+" is in "+content+", not in the state directory of host ")
	_, err = store.Open(a.Dir(), options())
	require.ErrorContains(t, err, "give its URL with --store or MAESTRO_STORE")
}
