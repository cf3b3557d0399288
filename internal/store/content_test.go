package store_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

var webSession = session.Key{Namespace: "default", Session: "web-1"}

// put writes a session's status and its mirror, as a boundary does.
func put(t testing.TB, s *store.Store, key session.Key, change func(*session.Execution)) {
	t.Helper()
	statetest.Put(t, s.State, key, change)
	require.NoError(t, s.Mirror(t.Context(), key))
}

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

func TestNamesThatWouldLeaveTheStore(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, key := range []session.Key{
		{Namespace: "..", Session: "s"},
		{Namespace: "n", Session: ".."},
		{Namespace: "n", Session: "a/b"},
		{Namespace: "", Session: "s"},
		{Namespace: "n", Session: ""},
		{Namespace: "n", Session: "a\x00"},
	} {
		_, _, err := s.Lock(t.Context(), key, id("backend"))
		require.Error(t, err)
		_, err = s.StoreCheckpoint(t.Context(), key, session.Checkpoint{CurrentPhase: "init"})
		require.Error(t, err)
		require.Error(t, s.Mirror(t.Context(), key))
	}
	_, _, err := s.Lock(t.Context(), webSession, id("../x"))
	require.Error(t, err)
	_, err = s.StoreCheckpoint(t.Context(), webSession, session.Checkpoint{CurrentPhase: "../x"})
	require.Error(t, err)
}
