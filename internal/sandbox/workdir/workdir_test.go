package workdir_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/sandbox/workdir"
)

var (
	web     = session.Key{Namespace: "default", Session: "web-1"}
	backend = spec.AssignmentID{Phase: "build", Persona: "backend"}
)

func made(t *testing.T, d *workdir.Dirs) session.WorkDir {
	t.Helper()
	w, err := d.Make(web, backend)
	require.NoError(t, err)
	return w
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

func TestWorkDirectories(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "state[1]*?") // a path is no pattern
	d := workdir.New(workdir.Options{Root: root})
	w := made(t, d)
	require.Regexp(t, regexp.QuoteMeta(filepath.Join(root, "default/web-1/build/backend"))+"/[0-9a-f]{32}/tree$", w.Tree)
	again := made(t, d)
	require.True(t, w.New)
	require.False(t, again.New, "something may be at work there")
	again.New = true
	require.Equal(t, w, again)
	ids, err := d.Assignments(web)
	require.NoError(t, err)
	require.Equal(t, []spec.AssignmentID{backend}, ids)
	keys, err := d.Sessions()
	require.NoError(t, err)
	require.Equal(t, []session.Key{web}, keys)

	write(t, filepath.Join(w.Tree, "a/b"), nil)
	require.NoError(t, os.Chmod(filepath.Join(w.Tree, "a"), 0))
	require.NoError(t, d.Remove(web))
	require.NoDirExists(t, w.Tree)
	require.NoError(t, d.Remove(web))
	_, err = d.Assignments(web)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestLiveLogs(t *testing.T) {
	t.Parallel()
	d := workdir.New(workdir.Options{Root: t.TempDir()})
	w := made(t, d)
	_, err := d.OpenLiveLog(web, backend)
	require.ErrorIs(t, err, fs.ErrNotExist)
	write(t, w.LiveLog, []byte("hello"))
	log, err := d.OpenLiveLog(web, backend)
	require.NoError(t, err)
	require.NoError(t, log.Close())
	require.NoError(t, os.Remove(w.LiveLog))
	require.NoError(t, syscall.Mkfifo(w.LiveLog, 0o600)) // an agent's doing
	_, err = d.OpenLiveLog(web, backend)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestWhatAnAgentDidToItsDirectoriesIsUndone(t *testing.T) {
	t.Parallel()
	d := workdir.New(workdir.Options{Root: t.TempDir()})
	w := made(t, d)
	outside := t.TempDir()
	require.NoError(t, os.Remove(w.Home))
	require.NoError(t, os.Symlink(outside, w.Home))
	above := filepath.Dir(w.Tree)
	for _, restore := range []func() error{
		func() error { return d.RestoreAccess(w) },
		func() error { _, err := d.Make(web, backend); return err },
	} {
		require.NoError(t, os.Chmod(w.Tmp, 0))
		for _, dir := range []string{above, filepath.Dir(above)} {
			require.NoError(t, os.Chmod(dir, 0))
		}
		require.NoError(t, restore())
		for _, dir := range []string{above, filepath.Dir(above)} {
			info, err := os.Stat(dir)
			require.NoError(t, err)
			require.EqualValues(t, 0o700, info.Mode().Perm())
		}
	}
	for _, dir := range []string{w.Tree, w.Home, w.Tmp} {
		info, err := os.Lstat(dir)
		require.NoError(t, err)
		require.True(t, info.IsDir(), "what an agent put in its place is gone")
		require.EqualValues(t, 0o700, info.Mode().Perm())
	}
	require.DirExists(t, outside)
	require.Error(t, d.RestoreAccess(session.WorkDir{Tree: outside}), "it lies elsewhere")
}

func TestAgentsOfAnotherUserPassThroughDirectories(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "state.work", "sessions")
	for _, shared := range []bool{false, true} {
		w, err := workdir.New(workdir.Options{Root: root, Shared: shared}).Make(session.Key{
			Namespace: "n",
			Session:   map[bool]string{true: "shared", false: "private"}[shared],
		}, backend)
		require.NoError(t, err)
		for dir, mode := range map[string]fs.FileMode{
			filepath.Dir(w.Tree): map[bool]fs.FileMode{true: 0o711, false: 0o700}[shared],
			w.Tree:               0o700,
		} {
			info, err := os.Stat(dir)
			require.NoError(t, err)
			require.Equal(t, mode, info.Mode().Perm())
		}
	}
}

func TestNamesThatWouldLeaveTheRoot(t *testing.T) {
	t.Parallel()
	d := workdir.New(workdir.Options{Root: t.TempDir()})
	for _, key := range []session.Key{
		{Namespace: "..", Session: "s"},
		{Namespace: "n", Session: ".."},
		{Namespace: "n", Session: "a/b"},
		{Namespace: "", Session: "s"},
		{Namespace: "n", Session: ""},
		{Namespace: "n", Session: "a\x00"},
	} {
		_, err := d.Make(key, backend)
		require.Error(t, err)
		_, err = d.OpenLiveLog(key, backend)
		require.Error(t, err)
		_, err = d.Assignments(key)
		require.Error(t, err)
		require.NotErrorIs(t, err, fs.ErrNotExist)
		require.Error(t, d.Remove(key))
	}
	for _, id := range []spec.AssignmentID{{Phase: "..", Persona: "p"}, {Phase: "a/b", Persona: "p"}, {Phase: "a"}} {
		_, err := d.Make(web, id)
		require.Error(t, err)
		_, err = d.OpenLiveLog(web, id)
		require.Error(t, err)
	}
}
