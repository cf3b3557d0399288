package store_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

// register registers a version of a team.
func register(t testing.TB, s *store.Store, name, content string) spec.Digest {
	t.Helper()
	digest, err := s.Content.PutBlob(t.Context(), []byte(content))
	require.NoError(t, err)
	text, err := s.Content.PutBlob(t.Context(), []byte("text of "+content))
	require.NoError(t, err)
	_, err = s.UpdateTeam(name, func(r *session.TeamRecord) bool {
		return r.Register(session.TeamVersion{Digest: digest, Text: text, By: "ann", At: now})
	})
	require.NoError(t, err)
	return digest
}

func TestVersionsOfManyWritersAreKept(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var all sync.WaitGroup
	for _, content := range []string{"a", "b", "c", "d", "a"} {
		all.Go(func() { register(t, s, "web", content) })
	}
	all.Wait()
	r, err := s.RegisteredTeam("web")
	require.NoError(t, err)
	require.Len(t, r.Versions, 4)
	a := register(t, s, "web", "a")
	r, err = s.RegisteredTeam("web")
	require.NoError(t, err)
	require.Len(t, r.Versions, 4)
	require.Equal(t, a, r.Versions[0].Digest, "an old version that is registered again is the newest")
	_, err = s.RegisteredTeam("api")
	require.ErrorIs(t, err, session.ErrNotFound)
	_, err = s.UpdateTeam("../web", func(*session.TeamRecord) bool { return true })
	require.Error(t, err)
}

func TestPruningKeepsRegisteredTeams(t *testing.T) {
	t.Parallel()
	model := newStore(t)
	digest := register(t, model, "web", "a team")
	register(t, model, "web", "a later one")
	register(t, model, "api", "another")
	s := later(t, model, tenDays)
	report, err := s.Prune(t.Context(), session.PruneOptions{})
	require.NoError(t, err)
	require.Zero(t, report.Blobs)
	sound(t, s)

	require.NoError(t, s.RemoveTeam("api"))
	require.NoError(t, s.RemoveTeam("api"))
	report, err = s.Prune(t.Context(), session.PruneOptions{})
	require.NoError(t, err)
	require.Equal(t, 2, report.Blobs)
	data, err := s.Content.Blob(t.Context(), digest)
	require.NoError(t, err)
	require.Equal(t, "a team", string(data))

	require.NoError(t, os.WriteFile(filepath.Join(s.Dir(), "teams", "web.json"), []byte("{}"), 0o600))
	_, err = s.Prune(t.Context(), session.PruneOptions{})
	require.ErrorContains(t, err, "teams/web.json", "what a damaged record needs is not known")
}
