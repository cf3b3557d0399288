package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/store"
)

// TestWhatIsNamedIsDurableFirst: after a power loss, no document or blob that is
// there names a blob that is not.
func TestWhatIsNamedIsDurableFirst(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	order := store.RecordDurability(s)
	busySession(t, s, webSession)
	require.Empty(t, order.Wrong)
	require.Positive(t, order.Named, "something names blobs")

	name, err := s.Content.PutBlob(t.Context(), []byte("late"))
	require.NoError(t, err)
	order.Forget(name)
	_, err = s.Content.PutBlob(t.Context(), []byte("names "+name))
	require.NoError(t, err)
	require.Len(t, order.Wrong, 1, "it is noticed")
}
