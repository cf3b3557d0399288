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

	name := stored(t, s, []byte("late"))
	order.Forget(name)
	stored(t, s, []byte("names "+name))
	require.Len(t, order.Wrong, 1, "it is noticed")
}
