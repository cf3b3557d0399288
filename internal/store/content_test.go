package store_test

import (
	"path/filepath"

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

func blobPath(s *store.Store, name spec.Digest) string {
	return filepath.Join(s.Dir(), "blobs", "sha256", string(name[:2]), string(name[2:]))
}

func sha(data []byte) spec.Digest { return cas.DigestOf(data) }

func file(content string) cas.Entry {
	return cas.Entry{SHA256: sha([]byte(content)), Size: int64(len(content))}
}

func id(persona string) spec.AssignmentID {
	return spec.AssignmentID{Phase: "build", Persona: persona}
}
