package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/storage"
	"github.com/maestro-hive/maestro/internal/store"
)

func TestRootDoesNotWriteIntoTheStoreOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a store to another user")
	}
	s := newStore(t)
	_, err := store.Open(s.Dir(), options())
	require.NoError(t, err, "its own")
	for _, path := range []string{s.Dir(), filepath.Join(s.Dir(), "store.json")} {
		require.NoError(t, os.Chown(path, 65534, 65534))
		for _, open := range []func(string, store.Options) (*store.Store, error){store.Open, store.Create} {
			_, err = open(s.Dir(), options())
			var owner *storage.OwnerError
			require.ErrorAs(t, err, &owner)
			require.Equal(t, 65534, owner.UID)
			require.ErrorContains(t, err, "sudo -u nobody maestro")
			require.ErrorContains(t, err, "runuser -u nobody")
		}
		reading := options()
		reading.Reading = true
		other, err := store.Open(s.Dir(), reading)
		require.NoError(t, err, "reading leaves nothing behind")
		require.True(t, other.Foreign())
		require.NoError(t, os.Chown(path, 0, 0))
	}
}
