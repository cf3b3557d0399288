package workdir_test

import (
	"context"
	"crypto/rand"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

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

var (
	first  = spec.Digest(strings.Repeat("1", 64))
	second = spec.Digest(strings.Repeat("2", 64))
)

// TestWhatAnAgentLeftAboveLayers stays while an attempt starts from just that, and goes with any
// other start.
func TestWhatAnAgentLeftAboveLayers(t *testing.T) {
	t.Parallel()
	var held atomic.Int32
	d := workdir.New(workdir.Options{Root: t.TempDir(), Acquire: func(_ context.Context, manifest spec.Digest,
		_ ...spec.Digest,
	) ([]string, func(), error) {
		held.Add(1)
		return []string{"/layers/" + string(manifest)}, func() { held.Add(-1) }, nil
	}})
	require.True(t, d.HasLayers())
	w := made(t, d)
	require.False(t, d.IsLayered(w))
	write(t, filepath.Join(w.Tree, "copied"), nil)
	w = made(t, d)

	ctx, end := context.WithCancel(t.Context())
	laid, release, err := d.UseLayers(ctx, w, first)
	require.NoError(t, err)
	require.Equal(t, first, laid.Lower())
	require.NoFileExists(t, filepath.Join(w.Tree, "copied"))
	require.DirExists(t, laid.Layers.Work)
	write(t, filepath.Join(laid.Tree, "ignored"), nil)
	end()
	require.EqualValues(t, 1, held.Load(), "a process may use the layers after the end of the context")
	release()
	require.Zero(t, held.Load())

	// A worker may have been killed between the making of a note and its use.
	require.NoError(t, os.Symlink("stale", filepath.Join(filepath.Dir(w.Tree), "layered.new")))
	again, _, err := d.WithLayers(t.Context(), w)
	require.NoError(t, err)
	require.Equal(t, laid.Layers, again.Layers, "an attempt that was cut off continues there")
	d.NoteCollected(again, second)
	kept, _, err := d.UseLayers(t.Context(), w, second)
	require.NoError(t, err)
	require.Equal(t, first, kept.Lower())
	require.FileExists(t, filepath.Join(w.Tree, "ignored"), "it starts from what was collected here")
	_, _, err = d.UseLayers(t.Context(), w, second)
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(w.Tree, "ignored"), "something may have worked there since")

	// The host has lost power since the tree was collected: files may be cut.
	write(t, filepath.Join(w.Tree, "ignored"), nil)
	note := filepath.Join(filepath.Dir(w.Tree), "layered")
	require.NoError(t, os.Remove(note))
	require.NoError(t, os.Symlink(string(first+" "+second)+" another-boot", note))
	require.True(t, d.IsLayered(w))
	_, _, err = d.UseLayers(t.Context(), w, second)
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(w.Tree, "ignored"))

	fresh, _, err := d.MakeCheckDir(t.Context(), w, first)
	require.NoError(t, err)
	for _, dir := range []string{fresh.Tree, fresh.Home, fresh.Tmp} {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
	require.NoError(t, d.ClearCheckDir(w))
	require.NoDirExists(t, fresh.Tree)
	require.NoError(t, d.ForgetLayers(w))
	require.False(t, d.IsLayered(w))
	plain, _, err := d.WithLayers(t.Context(), w)
	require.NoError(t, err)
	require.Nil(t, plain.Layers)
}

// TestACheckWithoutLayers sees the agent's tree, and nothing of its HOME and TMPDIR.
func TestACheckWithoutLayers(t *testing.T) {
	t.Parallel()
	d := workdir.New(workdir.Options{Root: t.TempDir()})
	w := made(t, d)
	for _, dir := range []string{w.Tree, w.Home, w.Tmp} {
		write(t, filepath.Join(dir, "left"), nil)
	}
	fresh, release, err := d.MakeCheckDir(t.Context(), w, first)
	require.NoError(t, err)
	defer release()
	require.Equal(t, w.Tree, fresh.Tree)
	for _, dir := range []string{fresh.Home, fresh.Tmp} {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
	require.NoError(t, d.ClearCheckDir(w))
	require.FileExists(t, filepath.Join(w.Tree, "left"))
}

func random(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.Read(data)
	return data
}

func TestWhatAnAttemptHasWritten(t *testing.T) {
	t.Parallel()
	d := workdir.New(workdir.Options{Root: t.TempDir()})
	dir := made(t, d)
	written := func(since time.Time) session.Written {
		w, err := d.Written(t.Context(), dir, since)
		require.NoError(t, err)
		return w
	}
	const size = 1 << 20
	write(t, filepath.Join(dir.Tree, "before"), random(size))
	require.InDelta(t, size, written(time.Time{}).Bytes, 100_000)
	since := time.Now().Add(20 * time.Millisecond)
	require.Eventually(t, func() bool { // the clock of files ticks seldom
		probe := filepath.Join(t.TempDir(), "probe")
		write(t, probe, nil)
		info, err := os.Stat(probe)
		require.NoError(t, err)
		return info.ModTime().After(since)
	}, time.Minute, time.Millisecond)

	require.Zero(t, written(since).Bytes, "it was there before")
	sparse, err := os.Create(filepath.Join(dir.Tree, "sparse"))
	require.NoError(t, err)
	require.NoError(t, sparse.Truncate(1<<40))
	require.NoError(t, sparse.Close())
	require.Less(t, written(since).Bytes, int64(100_000), "holes take up no room")
	for _, name := range []string{"tree/node_modules", "home", "tmp", "beside"} {
		at := filepath.Join(filepath.Dir(dir.Tree), name)
		write(t, filepath.Join(at, "f"), random(size))
		require.NoError(t, os.Link(filepath.Join(at, "f"), filepath.Join(at, "g")))
	}
	require.InDelta(t, 4*size, written(since).Bytes, 200_000, "ignored files count, and names of one file once")
	require.False(t, written(since).Hidden)

	require.NoError(t, d.ClearTmp(dir))
	require.InDelta(t, 3*size, written(since).Bytes, 200_000)
	require.NoError(t, d.Clear(dir))
	require.Less(t, written(time.Time{}).Bytes, int64(100_000))
	for _, d := range []string{dir.Tree, dir.Home, dir.Tmp} {
		require.DirExists(t, d)
	}
}

// TestWhatCannotBeMeasured counts as hidden, except the directory of the kernel in that of an overlay.
func TestWhatCannotBeMeasured(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root may read everything; make test-user runs this as another user")
	}
	d := workdir.New(workdir.Options{Root: t.TempDir()})
	dir := made(t, d)
	base := filepath.Dir(dir.Tree)
	hidden := func() bool {
		w, err := d.Written(t.Context(), dir, time.Time{})
		require.NoError(t, err)
		return w.Hidden
	}
	for _, overlay := range []string{"overlay", "check/overlay"} {
		require.NoError(t, os.MkdirAll(filepath.Join(base, overlay), 0o700))
		require.NoError(t, os.Mkdir(filepath.Join(base, overlay, "work"), 0))
	}
	require.False(t, hidden())
	closed := filepath.Join(dir.Home, "overlay/work")
	require.NoError(t, os.MkdirAll(closed, 0o700))
	require.NoError(t, os.Chmod(closed, 0))
	require.True(t, hidden())
	require.NoError(t, os.Chmod(closed, 0o700))
}

// TestSpaceThatIsFreedOnADiskThatIsNotFull blames the disk for nothing.
func TestSpaceThatIsFreedOnADiskThatIsNotFull(t *testing.T) {
	t.Parallel()
	d := workdir.New(workdir.Options{Root: t.TempDir(), Free: func(context.Context) bool { return true }})
	require.True(t, d.FreeDisk(t.Context()))
	disk, err := d.Disk()
	require.NoError(t, err)
	require.False(t, disk.IsFull())
	require.Zero(t, disk.Freed)
}
