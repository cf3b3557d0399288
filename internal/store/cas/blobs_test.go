package cas_test

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
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
