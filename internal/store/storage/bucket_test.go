package storage_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/store/storage"
	"github.com/maestro-hive/maestro/internal/store/storage/storagetest"
)

func TestDirectory(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T, clock *storagetest.Clock) storagetest.Host {
		dir := t.TempDir()
		return func() storage.Content {
			d, err := storage.NewDirectory(dir, clock.Now)
			require.NoError(t, err)
			return d
		}
	})
}

func TestBucket(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T, clock *storagetest.Clock) storagetest.Host {
		return storagetest.Hosts(t, clock, "file://"+t.TempDir(), 0)
	})
}

func TestNoSweepLosesWhatWasPutOrUsed(t *testing.T) {
	t.Parallel()
	clock := &storagetest.Clock{}
	storagetest.Race(t, storagetest.Hosts(t, clock, "file://"+t.TempDir(), 0), clock)
}
