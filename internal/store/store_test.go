package store_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/cas/castest"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

// now is what the tests' clock shows.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func options() store.Options { return store.Options{Clock: func() time.Time { return now }} }

// newStore makes a store that ends with the test.
func newStore(t testing.TB) *store.Store {
	t.Helper()
	s, err := store.Create(filepath.Join(t.TempDir(), "store"), options())
	require.NoError(t, err)
	return s
}

var writeTree, readTree = castest.WriteTree, castest.ReadTree

// stored stores content, and returns its name.
func stored(t testing.TB, s *store.Store, content []byte) spec.Digest {
	t.Helper()
	name, err := s.Content.PutBlob(t.Context(), content)
	require.NoError(t, err)
	return name
}

// verified is what a whole verification finds.
func verified(t testing.TB, s *store.Store) store.Report {
	t.Helper()
	report, err := s.VerifyAll(t.Context())
	require.NoError(t, err)
	return report
}

func pruned(t testing.TB, s *store.Store, o session.PruneOptions) session.PruneReport {
	t.Helper()
	report, err := s.Prune(t.Context(), o)
	require.NoError(t, err)
	return report
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data
}

// snapshot stores a tree given by its files.
func snapshot(t testing.TB, s *store.Store, files map[string]string) spec.Digest {
	t.Helper()
	dir := t.TempDir()
	writeTree(t, dir, files)
	snap, err := s.Content.Snapshot(t.Context(), dir, cas.SnapshotOptions{})
	require.NoError(t, err)
	return snap.Manifest
}

func TestAStoreIsMadeWhereNothingIs(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	_, err := store.Open(dir, options())
	require.ErrorIs(t, err, session.ErrNotFound)
	require.NoDirExists(t, dir)

	s, err := store.Create(dir, options())
	require.NoError(t, err)
	require.Regexp(t, `^[a-z2-7]{8}$`, s.ID())
	require.Equal(t, dir, s.Dir())
	for path, want := range map[string]os.FileMode{dir: 0o700 | os.ModeDir, filepath.Join(dir, "store.json"): 0o600} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, want, info.Mode(), path)
	}
	for _, open := range []func(string, store.Options) (*store.Store, error){store.Create, store.Open} {
		again, err := open(dir, options())
		require.NoError(t, err)
		require.Equal(t, s.ID(), again.ID())
	}
	_, err = store.Open(dir, store.Options{})
	require.ErrorContains(t, err, "clock")

	empty := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(empty, "lost+found"), 0o700))
	other, err := store.Create(empty, options())
	require.NoError(t, err)
	require.NotEqual(t, s.ID(), other.ID())
}

func TestWhatIsNoStoreIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		says  string
	}{
		"in use":        {map[string]string{"photo.jpg": "x"}, "neither empty nor a store"},
		"no json":       {map[string]string{"store.json": "{"}, "restore it"},
		"no id":         {map[string]string{"store.json": `{"version":1}`}, "restore it"},
		"escaping id":   {map[string]string{"store.json": `{"id":"../x","version":1}`}, "restore it"},
		"newer version": {map[string]string{"store.json": `{"id":"abcdefgh","version":2}`}, "format 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeTree(t, dir, c.files)
			_, err := store.Create(dir, options())
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, dir)
			require.Equal(t, c.files, readTree(t, dir), "nothing was touched")
		})
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := store.Create(file, options())
	require.Error(t, err)
}

func TestOldTemporaryFilesAreSweptUp(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	stored(t, s, []byte("x"))
	old, young := filepath.Join(s.Dir(), "tmp", "put-1"), filepath.Join(s.Dir(), "tmp", "put-2")
	for path, at := range map[string]time.Time{old: now.Add(-25 * time.Hour), young: now.Add(-time.Hour)} {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Chtimes(path, at, at))
	}
	_, err := store.Open(s.Dir(), options())
	require.NoError(t, err)
	require.NoFileExists(t, old)
	require.FileExists(t, young)
}

// roles are what other processes do with the store in their first argument.
var roles = map[string]func(dir string, args []string) error{
	"create": func(dir string, _ []string) error {
		s, err := store.Create(dir, options())
		if err == nil {
			fmt.Println(s.ID())
		}
		return err
	},
}

func TestMain(m *testing.M) { castest.Main(m, roles) }

func TestProcessesThatCreateTogetherMakeOneStore(t *testing.T) {
	t.Parallel()
	for range 5 {
		dir := filepath.Join(t.TempDir(), "state", "store")
		var cmds [8]*exec.Cmd
		var ids [8]bytes.Buffer
		for i := range cmds {
			cmds[i] = castest.Process(t, "create", dir)
			cmds[i].Stdout, cmds[i].Stderr = &ids[i], &ids[i]
			require.NoError(t, cmds[i].Start())
		}
		for i, cmd := range cmds {
			require.NoError(t, cmd.Wait(), ids[i].String())
		}
		s, err := store.Open(dir, options())
		require.NoError(t, err)
		for i := range ids {
			require.Equal(t, s.ID()+"\n", ids[i].String())
		}
	}
}

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

func sha(data []byte) spec.Digest { return spec.DigestOf(data) }

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
