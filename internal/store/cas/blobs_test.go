package cas_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

func blobPath(s *content, name spec.Digest) string {
	return filepath.Join(s.Dir(), "blobs", "sha256", string(name[:2]), string(name[2:]))
}

func sha(data []byte) spec.Digest {
	sum := sha256.Sum256(data)
	return spec.Digest(hex.EncodeToString(sum[:]))
}

func TestBlobsThatAreNotThere(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, name := range []spec.Digest{"", "../../etc/passwd", "ABC", sha([]byte("absent"))} {
		_, err := s.Blob(t.Context(), name)
		require.ErrorIs(t, err, session.ErrNotFound, name)
	}
}

func TestADamagedBlobIsFoundNamedAndMovedTo(t *testing.T) {
	t.Parallel()
	data := []byte("what was written")
	for what, damage := range map[string]func([]byte) []byte{
		"flipped": func(b []byte) []byte { b[3] ^= 1; return b },
		"cut":     func(b []byte) []byte { return b[:5] },
		"emptied": func([]byte) []byte { return nil },
		"longer":  func(b []byte) []byte { return append(b, '!') },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			name, err := s.PutBlob(t.Context(), data)
			require.NoError(t, err)
			damaged := damage(bytes.Clone(data))
			require.NoError(t, os.WriteFile(blobPath(s, name), damaged, 0o600))

			_, err = s.Blob(t.Context(), name)
			require.ErrorIs(t, err, session.ErrCorrupt)
			var fault *cas.Fault
			require.ErrorAs(t, err, &fault)
			require.Equal(t, blobPath(s, name), filepath.Join(s.Dir(), fault.Path))
			kept, err := os.ReadFile(filepath.Join(s.Dir(), fault.MovedTo))
			require.NoError(t, err)
			require.True(t, bytes.Equal(damaged, kept), "the quarantine keeps what was found")
			_, err = s.Blob(t.Context(), name)
			require.ErrorIs(t, err, session.ErrNotFound)

			_, err = s.PutBlob(t.Context(), data)
			require.NoError(t, err)
			back, err := s.Blob(t.Context(), name)
			require.NoError(t, err)
			require.Equal(t, data, back)
		})
	}
}

func TestAStoreThatCannotBeWrittenIsNoFailureOfTheWork(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	// A file where a directory has to be fails for root, too.
	require.NoError(t, os.RemoveAll(filepath.Join(s.Dir(), "blobs")))
	require.NoError(t, os.WriteFile(filepath.Join(s.Dir(), "blobs"), nil, 0o600))
	_, err := s.PutBlob(t.Context(), []byte("x"))
	require.Error(t, err)
	require.NotErrorIs(t, err, session.ErrCorrupt)
	require.NotErrorIs(t, err, session.ErrNotFound)
	var failure *failures.Failure
	require.NotErrorAs(t, err, &failure)

	require.NoError(t, os.Remove(filepath.Join(s.Dir(), "blobs")))
	_, err = s.PutBlob(t.Context(), []byte("x"))
	require.NoError(t, err, "it goes on once the store is mended")
}
