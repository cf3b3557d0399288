package cas_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/store/cas"
)

func TestSnapshotsLeaveKeysOut(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{
		"main.go": "1", "environment.go": "1", "monkey.go": "1", ".env": "1", "app/.env.local": "1", "tls/server.pem": "1",
		"tls/SERVER.KEY": "1",
		"id_rsa":         "1", "id_rsa.pub": "1", "id_ed25519": "1", ".ssh/config": "1", ".gitignore": "*.log\n", "a.log": "1",
		"node_modules/x/y": "1",
	})
	snap := snapped(t, s, dir, cas.SnapshotOptions{})
	require.Equal(t, []string{".gitignore", "environment.go", "main.go", "monkey.go"}, manifest(t, s, snap.Manifest).Paths())
	require.Equal(t, []string{
		".env", ".ssh/", "app/.env.local", "id_ed25519", "id_rsa", "id_rsa.pub", "tls/SERVER.KEY",
		"tls/server.pem",
	}, snap.Private)
	require.Equal(t, []string{"a.log", "node_modules/"}, snap.Ignored)
	require.Equal(t, 4, snap.Files)
	require.EqualValues(t, 9, snap.Bytes)

	snap, err := s.Snapshot(t.Context(), dir,
		cas.SnapshotOptions{Include: []string{"app/.env.*", "a.log", ".ssh/config", "node_modules/x/*"}, Ignore: []string{"m*.go"}})
	require.NoError(t, err)
	require.Equal(t, []string{".gitignore", ".ssh/config", "a.log", "app/.env.local", "environment.go", "node_modules/x/y"},
		manifest(t, s, snap.Manifest).Paths())
}

// TestTrackedFiles are taken although a .gitignore or their names exclude them, but not what the team ignores.
func TestTrackedFiles(t *testing.T) {
	t.Parallel()
	s, dir := newStore(t), t.TempDir()
	tracked := []string{".gitignore", "dist/a", "gen/b", "gen/c", "x.log", ".env", "gone"}
	writeTree(t, dir, map[string]string{
		".gitignore": "dist/\n*.log\n", "dist/a": "1", "dist/new": "1", "gen/b": "1", "gen/c": "1",
		"x.log": "1", ".env": "1",
	})
	taken := func(o cas.SnapshotOptions) (paths, ignored []string) {
		snap := snapped(t, s, dir, o)
		return manifest(t, s, snap.Manifest).Paths(), snap.Ignored
	}
	paths, ignored := taken(cas.SnapshotOptions{Tracked: tracked, Ignore: []string{"gen/", "!gen/c", "*.log"}})
	require.Equal(t, []string{".env", ".gitignore", "dist/a"}, paths)
	require.Equal(t, []string{"dist/new", "gen/", "x.log"}, ignored)
}

// TestWhatCannotBeReadIsLeftOut of a workspace, and of a result if it is new and cannot be made readable.
func TestWhatCannotBeReadIsLeftOut(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root may read everything; make test-user runs this as another user")
	}
	s, dir := newStore(t), t.TempDir()
	writeTree(t, dir, map[string]string{"a": "1", "closed/b": "1", "listed/c": "1", "d/.gitignore": "x\n", "d/x": "1", "e": "1"})
	for p, mode := range map[string]os.FileMode{"closed": 0, "listed": 0o400, "d/.gitignore": 0, "e": 0} {
		require.NoError(t, os.Chmod(filepath.Join(dir, p), mode))
		t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, p), 0o700) })
	}
	snap := snapped(t, s, dir, cas.SnapshotOptions{Tracked: []string{"closed/b", "e"}})
	require.Equal(t, []string{
		`"closed/": cannot be read: permission denied`, `"d/.gitignore": cannot be read: permission denied`,
		`"d/.gitignore": its ignore rules do not count: it cannot be read: permission denied`, `"e": cannot be read: permission denied`,
		`"listed/": cannot be read: permission denied`,
	}, snap.Odd)
	require.Equal(t, []string{"a", "d/x"}, manifest(t, s, snap.Manifest).Paths())
}

func TestASnapshotOnlyReads(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"a": "1", "d/b": "2"})
	require.NoError(t, os.Chmod(filepath.Join(dir, "d"), 0o500))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "d"), 0o755) })
	snapped(t, s, dir, cas.SnapshotOptions{})
	info, err := os.Stat(filepath.Join(dir, "d"))
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|0o500, info.Mode())
	require.Len(t, readTree(t, dir), 2)
}

func TestAStoreInsideTheWorkspaceIsSkipped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"a": "1"})
	s := open(t, filepath.Join(dir, "state", "maestro"), cas.Limits{})
	for range 2 {
		require.Equal(t, []string{"a"}, snapshotPaths(t, s, dir))
	}
}

func TestAWorkspaceThatCannotBeTaken(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	snap := snapped(t, s, dir, cas.SnapshotOptions{})
	require.Equal(t, []string{`because they cannot be kept: "pipe": is a named pipe; only files and links can be kept`},
		snap.LeftOut())
	_, err := s.Snapshot(t.Context(), dir, cas.SnapshotOptions{Include: []string{"pipe"}})
	var refused *cas.RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "pipe", refused.Path)
	_, err = s.Snapshot(t.Context(), filepath.Join(dir, "absent"), cas.SnapshotOptions{})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = s.Snapshot(t.Context(), dir, cas.SnapshotOptions{Include: []string{"["}})
	require.ErrorAs(t, err, &refused)
}
