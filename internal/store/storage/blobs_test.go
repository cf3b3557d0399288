package storage_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

func contentOf(t *testing.T, s *storage.Directory, digest spec.Digest) string {
	t.Helper()
	r, err := s.OpenBlob(t.Context(), digest)
	require.NoError(t, err)
	defer r.Close()
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(data)
}

// TestDamagedBlobsAreRepairedOrMoved: a put repairs a damaged blob; one that is found damaged is moved, unless it was repaired in
// the meantime.
func TestDamagedBlobsAreRepairedOrMoved(t *testing.T) {
	t.Parallel()
	s := opener(t)()
	digest := spec.DigestOf([]byte("as it was"))
	require.NoError(t, s.PutBlob(t.Context(), digest, []byte("as it was")))
	for _, wrong := range []string{"", "as it is!", "longer than it was"} {
		path := filepath.Join(s.Root(), storage.BlobKey(digest))
		require.NoError(t, os.WriteFile(path, []byte(wrong), 0o600))
		moved, err := s.MoveDamaged(t.Context(), digest)
		require.NoError(t, err)
		data, err := s.Read(t.Context(), moved)
		require.NoError(t, err)
		require.Equal(t, wrong, string(data))
		require.NoError(t, os.WriteFile(path, []byte(wrong), 0o600))
		require.NoError(t, s.PutBlob(t.Context(), digest, []byte("as it was")))
		moved, err = s.MoveDamaged(t.Context(), digest)
		require.NoError(t, err)
		require.Empty(t, moved, "it is not damaged any more")
		require.Equal(t, "as it was", contentOf(t, s, digest))
	}
}
