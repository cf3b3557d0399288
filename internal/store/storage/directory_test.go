package storage_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/store/storage"
)

// opener returns a function that opens the same directory each time, as another process would.
func opener(t *testing.T) func() *storage.Directory {
	t.Helper()
	dir := t.TempDir()
	return func() *storage.Directory {
		d, err := storage.NewDirectory(dir, time.Now)
		require.NoError(t, err)
		return d
	}
}

// TestReadersSeeWholeFiles: a reader sees a complete file, the old or the new one.
func TestReadersSeeWholeFiles(t *testing.T) {
	t.Parallel()
	open := opener(t)
	s, reader := open(), open()
	_, err := s.Read(t.Context(), "a/doc")
	require.ErrorIs(t, err, storage.ErrNotFound)
	one, two := bytes.Repeat([]byte("1"), 1<<16), bytes.Repeat([]byte("2"), 1<<15)
	require.NoError(t, s.Replace(t.Context(), "a/doc", one))
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 50 && err == nil; i++ {
			err = s.Replace(t.Context(), "a/doc", [][]byte{two, one}[i%2])
		}
		done <- err
	}()
	for {
		data, err := reader.Read(t.Context(), "a/doc")
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, one) || bytes.Equal(data, two))
		select {
		case err := <-done:
			require.NoError(t, err)
			left, err := os.ReadDir(filepath.Join(s.Root(), "tmp"))
			require.NoError(t, err)
			require.Empty(t, left)
			return
		default:
		}
	}
}
