package store_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/store"
)

func TestOlderBreakerNeverReplacesNewer(t *testing.T) {
	t.Parallel()
	st, err := store.Create(filepath.Join(t.TempDir(), "state"), store.Options{Clock: time.Now})
	require.NoError(t, err)
	since := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	put := func(since time.Time, revision int64) {
		require.NoError(t, st.PutBreaker(t.Context(), session.BreakerStatus{Name: "coder", Since: since, Revision: revision}))
	}
	_, err = st.Breaker("coder")
	require.ErrorIs(t, err, session.ErrNotFound)
	var all sync.WaitGroup
	for revision := range int64(20) {
		all.Go(func() { put(since, revision) })
	}
	all.Wait()
	put(since, 3)
	b, err := st.Breaker("coder")
	require.NoError(t, err)
	require.Equal(t, int64(19), b.Revision)
	put(since.Add(time.Hour), 1)
	b, err = st.Breaker("coder")
	require.NoError(t, err)
	require.Equal(t, int64(1), b.Revision, "a breaker that was made later begins anew")
	require.Error(t, st.PutBreaker(t.Context(), session.BreakerStatus{Name: "../coder"}))
}

func TestDamagedBreakerIsWrittenAnew(t *testing.T) {
	t.Parallel()
	st, err := store.Create(filepath.Join(t.TempDir(), "state"), store.Options{Clock: time.Now})
	require.NoError(t, err)
	require.NoError(t, st.PutBreaker(t.Context(), session.BreakerStatus{Name: "a", Revision: 5}))
	require.NoError(t, st.PutBreaker(t.Context(), session.BreakerStatus{Name: "b", Revision: 5}))
	require.NoError(t, os.WriteFile(filepath.Join(st.Dir(), "breakers", "a.json"), []byte("{"), 0o600))
	all, err := st.Breakers(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.NoError(t, st.PutBreaker(t.Context(), session.BreakerStatus{Name: "a", Revision: 6}))
	all, err = st.Breakers(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
}
