package store

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

func TestTheFileSystemsClockAndLocks(t *testing.T) {
	t.Parallel()
	s, err := Create(t.TempDir(), Options{Clock: time.Now})
	require.NoError(t, err)
	now, err := s.Clock()
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), now, time.Minute)
	require.NoError(t, s.CheckLocks())
	left, err := os.ReadDir(filepath.Join(s.Dir(), "tmp"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestWhenAnOfferWasWritten(t *testing.T) {
	t.Parallel()
	s, err := Create(t.TempDir(), Options{Clock: time.Now})
	require.NoError(t, err)
	_, _, err = s.OfferFile("w")
	require.ErrorIs(t, err, storage.ErrNotFound)
	require.NoError(t, s.PutOffer(t.Context(), spec.Offer{Worker: "w", RenewedAt: time.Now().Add(-time.Hour)}))
	path, written, err := s.OfferFile("w")
	require.NoError(t, err)
	require.FileExists(t, path)
	require.WithinDuration(t, time.Now(), written, time.Minute)
}
