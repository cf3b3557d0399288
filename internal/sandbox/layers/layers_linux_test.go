package layers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/bounded"
	"github.com/maestro-hive/maestro/internal/sandbox/layers"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/cas/castest"
	"github.com/maestro-hive/maestro/internal/store/storage"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// tester is a test, a benchmark or a property.
type tester interface {
	require.TestingT
	Context() context.Context
}

func openStore(t require.TestingT, dir string) *cas.Store {
	require.NoError(t, os.MkdirAll(dir, 0o700))
	blobs, err := storage.NewDirectory(dir, time.Now)
	require.NoError(t, err)
	return cas.New(blobs, cas.Options{StoreDir: dir})
}

// put stores a tree: a content of "-> target" is a link, one that starts with "#!" a program.
func put(t tester, s *cas.Store, files map[string]string) spec.Digest {
	m := cas.Manifest{}
	for p, text := range files {
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			m[p] = cas.Entry{Link: target}
			continue
		}
		blob, err := s.PutBlob(t.Context(), []byte(text))
		require.NoError(t, err)
		m[p] = cas.Entry{SHA256: blob, Size: int64(len(text)), Executable: strings.HasPrefix(text, "#!")}
	}
	name, err := s.PutManifest(t.Context(), m)
	require.NoError(t, err)
	return name
}

func openLayers(t require.TestingT, s *cas.Store, root string, change func(*layers.Options)) *layers.Layers {
	o := layers.Options{Root: root, Files: s, Now: time.Now}
	if change != nil {
		change(&o)
	}
	l, err := layers.New(o)
	require.NoError(t, err)
	return l
}

func acquire(t tester, l *layers.Layers, m spec.Digest, near ...spec.Digest) *layers.Stack {
	s, err := l.Acquire(t.Context(), m, near...)
	require.NoError(t, err)
	return s
}

// union reads a stack as its mount would show it, with empty directories.
func union(t require.TestingT, dirs []string) map[string]string {
	out := map[string]string{}
	for _, dir := range slices.Backward(dirs) {
		require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			require.NoError(t, err)
			info, err := e.Info()
			require.NoError(t, err)
			p, err := filepath.Rel(dir, path)
			require.NoError(t, err)
			if e.IsDir() {
				require.Equal(t, fs.FileMode(0o755), info.Mode().Perm(), p)
				out[p] = "/"
				return nil
			}
			if info.Mode()&fs.ModeSymlink != 0 {
				target, err := os.Readlink(path)
				out[p] = "-> " + target
				return err
			}
			text, err := os.ReadFile(path)
			out[p] = string(text)
			require.Equal(t, strings.HasPrefix(out[p], "#!"), info.Mode() == 0o755, p)
			return err
		}))
	}
	return out
}

// full are a tree's files with its directories.
func full(files map[string]string) map[string]string {
	out := map[string]string{".": "/"}
	for p, text := range files {
		for dir := filepath.Dir(p); dir != "."; dir = filepath.Dir(dir) {
			out[dir] = "/"
		}
		out[p] = text
	}
	return out
}

var steps = []map[string]string{
	{"a": "1", "d/x": "1", "d/e/y": "1", "run": "#!x", "l": "-> a"},
	{"a": "2", "d/x": "1", "d/e/y": "1", "run": "x", "l": "-> d"},
	{"a": "2", "d": "now a file", "run/now": "a directory"},
	{"a": "2", "d/new": "1", "run/now": "a directory"},
	{"run": "#!x", "d/new": "1", "n/e/w": "1"},
	{},
	{"a": "2", "d/x": "1", "d/e/y": "1"},
}

func layersOf(t require.TestingT, root string) []string {
	found, err := filepath.Glob(filepath.Join(root, strings.Repeat("[0-9a-f]", 32)+"-*"))
	require.NoError(t, err)
	return found
}

// sizeOf is the size of the layers of a stack, by their notes.
func sizeOf(t *testing.T, stack *layers.Stack) (bytes int64) {
	t.Helper()
	for _, dir := range stack.Dirs {
		var note struct{ Bytes int64 }
		data, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "note"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &note))
		bytes += note.Bytes
	}
	return bytes
}

func TestAStackIsItsTree(t *testing.T) {
	t.Parallel()
	s, root := openStore(t, t.TempDir()), filepath.Join(t.TempDir(), "layers")
	l := openLayers(t, s, root, nil)
	var before spec.Digest
	for i, files := range steps {
		m := put(t, s, files)
		stack := acquire(t, l, m, before)
		require.Equal(t, full(files), union(t, stack.Dirs), i)
		require.LessOrEqual(t, len(stack.Dirs), 2)
		require.NoError(t, stack.Release())
		require.NoError(t, stack.Release())
		before = m
	}
	info, err := os.Stat(root)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o711), info.Mode().Perm())
	require.Len(t, layersOf(t, root), len(steps))
}

// TestALayerHoldsWhatDiffers from the whole layer of a tree near, or the whole tree.
func TestALayerHoldsWhatDiffers(t *testing.T) {
	t.Parallel()
	s, root := openStore(t, t.TempDir()), t.TempDir()
	l := openLayers(t, s, root, nil)
	files := map[string]string{"gone/a": "1", "same": "#!same"}
	for i := range 50 {
		files[fmt.Sprintf("d/f%02d", i)] = "1"
	}
	first := put(t, s, files)
	whole := acquire(t, l, first)
	files["d/f00"] = "2"
	second := put(t, s, files)
	top := acquire(t, l, second, first)
	require.Equal(t, whole.Dirs, top.Dirs[1:])
	require.Equal(t, map[string]string{".": "/", "d": "/", "d/f00": "2"}, union(t, top.Dirs[:1]))
	files["d/f01"], files["new"] = "2", "1"
	third := acquire(t, l, put(t, s, files), "", second)
	require.Equal(t, whole.Dirs, third.Dirs[1:], "layers are never deeper")
	require.Equal(t, map[string]string{".": "/", "d": "/", "d/f00": "2", "d/f01": "2", "new": "1"}, union(t, third.Dirs[:1]))

	delete(files, "gone/a")
	flat := acquire(t, l, put(t, s, files), second)
	require.Len(t, flat.Dirs, 1, "a layer removes nothing")
	require.Equal(t, full(files), union(t, flat.Dirs))
	for i := range 40 {
		files[fmt.Sprintf("d/f%02d", i)] = "3"
	}
	other := acquire(t, l, put(t, s, files), first)
	require.Len(t, other.Dirs, 1, "too much differs")
	require.NoError(t, errors.Join(whole.Release(), top.Release(), third.Release(), flat.Release(), other.Release()))
}

// TestAChangedLayerIsNotUsed, nor what lies above it, even if the time of the change was set back.
func TestAChangedLayerIsNotUsed(t *testing.T) {
	t.Parallel()
	files := map[string]string{"d/a": "1234", "d/b": "1", "l": "-> d"} // half of it may differ
	over := maps.Clone(files)
	over["d/b"] = "2"
	for name, change := range map[string]func(dir string) error{
		"a byte": func(dir string) error { return os.WriteFile(filepath.Join(dir, "d/a"), []byte("1235"), 0o600) },
		"a byte, back in time": func(dir string) error {
			path := filepath.Join(dir, "d/a")
			was, err := os.Stat(path)
			return errors.Join(err, os.WriteFile(path, []byte("1235"), 0o600), os.Chtimes(path, was.ModTime(), was.ModTime()))
		},
		"a file more": func(dir string) error { return os.WriteFile(filepath.Join(dir, "d/c"), nil, 0o600) },
		"a file less": func(dir string) error { return os.Remove(filepath.Join(dir, "d/a")) },
		"a mode":      func(dir string) error { return os.Chmod(filepath.Join(dir, "d/a"), 0o755) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, root, now := openStore(t, t.TempDir()), t.TempDir(), time.Now()
			l := openLayers(t, s, root, func(o *layers.Options) { o.Now = func() time.Time { return now } })
			lower := acquire(t, l, put(t, s, files))
			upper := acquire(t, l, put(t, s, over), put(t, s, files))
			require.Len(t, upper.Dirs, 2)
			require.NoError(t, upper.Release())
			require.NoError(t, change(lower.Dirs[0])) // while it is in use
			now = now.Add(2 * time.Second)
			for m, want := range map[spec.Digest]map[string]string{put(t, s, over): over, put(t, s, files): files} {
				again := acquire(t, l, m)
				require.Equal(t, full(want), union(t, again.Dirs))
				require.NoError(t, again.Release())
			}
			require.NoError(t, lower.Release())
			require.NoError(t, l.Collect(t.Context()))
		})
	}
}

// TestVerifyRemovesAChangedLayer, and says so once.
func TestVerifyRemovesAChangedLayer(t *testing.T) {
	t.Parallel()
	s, root := openStore(t, t.TempDir()), t.TempDir()
	l := openLayers(t, s, root, nil)
	m := put(t, s, map[string]string{"d/a": "1234"})
	stack := acquire(t, l, m)
	require.NoError(t, stack.Release())
	removed, err := layers.Verify(root)
	require.NoError(t, err)
	require.Empty(t, removed)

	require.NoError(t, os.WriteFile(filepath.Join(stack.Dirs[0], "d/a"), []byte("1235"), 0o600))
	removed, err = layers.Verify(root)
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Base(filepath.Dir(stack.Dirs[0]))}, removed)
	removed, err = layers.Verify(root)
	require.NoError(t, err)
	require.Empty(t, removed)

	_, err = layers.Verify(filepath.Join(root, "none"))
	require.NoError(t, err)
}

// A tree for another owner is another layer: an overlay cannot copy up what is owned by
// somebody that it does not map.
func TestLayersOfTwoOwners(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root gives files away")
	}
	s, root := openStore(t, t.TempDir()), t.TempDir()
	m := put(t, s, steps[0])
	for _, uid := range []int{64101, 64102} {
		stack := acquire(t, openLayers(t, s, root, func(o *layers.Options) { o.Owner = &cas.Owner{UID: uid, GID: uid + 10} }), m)
		require.NoError(t, filepath.WalkDir(stack.Dirs[0], func(p string, e fs.DirEntry, err error) error {
			require.NoError(t, err)
			var st unix.Stat_t
			require.NoError(t, unix.Lstat(p, &st))
			require.Equal(t, []int{uid, uid + 10}, []int{int(st.Uid), int(st.Gid)}, p)
			return nil
		}))
		require.NoError(t, stack.Release())
	}
	require.Len(t, layersOf(t, root), 2)
}

func TestWhatIsUsedStays(t *testing.T) {
	t.Parallel()
	s, root := openStore(t, t.TempDir()), t.TempDir()
	now := time.Now()
	l := openLayers(t, s, root, func(o *layers.Options) {
		o.MaxBytes = 1
		o.Now = func() time.Time { now = now.Add(time.Second); return now }
	})
	many := map[string]string{}
	for i := range 20 {
		many[fmt.Sprint(i)] = "1"
	}
	base := put(t, s, many)
	require.NoError(t, acquire(t, l, base).Release())
	many["0"] = "2"
	middle := put(t, s, many)
	require.NoError(t, acquire(t, l, middle, base).Release())
	many["1"] = "2"
	top := acquire(t, l, put(t, s, many), middle)
	require.Len(t, top.Dirs, 2)
	other := put(t, s, map[string]string{"other": "1"})
	require.NoError(t, acquire(t, l, other).Release())

	require.NoError(t, l.Collect(t.Context()))
	require.Len(t, layersOf(t, root), 2, "the one that is used, and the one below it")
	require.Equal(t, full(many), union(t, top.Dirs))
	roomy := openLayers(t, s, root, func(o *layers.Options) { o.MaxBytes = sizeOf(t, top) + 4096 })
	require.NoError(t, top.Release())

	// Those that were not used for long go first, but none that another needs.
	require.NoError(t, acquire(t, l, other).Release())
	require.NoError(t, acquire(t, l, middle, base).Release())
	require.NoError(t, roomy.Collect(t.Context()))
	left := layersOf(t, root)
	require.Len(t, left, 3)
	require.NoDirExists(t, filepath.Dir(top.Dirs[0]))

	// A full disk gets them all.
	for _, want := range []bool{true, false} {
		freed, err := roomy.Free(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, freed)
		require.Empty(t, layersOf(t, root))
	}
}

func TestLayersOfAnotherStartOfTheHostAreNotBelieved(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(note string) string{
		"another start": func(note string) string {
			boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
			require.NoError(t, err)
			return strings.ReplaceAll(note, strings.TrimSpace(string(boot)), "another")
		},
		"torn":    func(note string) string { return note[:len(note)/2] },
		"remade":  func(note string) string { return strings.Replace(note, `"ID":"`, `"ID":"X`, 1) },
		"missing": func(string) string { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, root := openStore(t, t.TempDir()), t.TempDir()
			l := openLayers(t, s, root, nil)
			files := map[string]string{"a": "1", "b": "1", "c": "1"}
			base := put(t, s, files)
			bottom := acquire(t, l, base)
			files["a"] = "2"
			m := put(t, s, files)
			top := acquire(t, l, m, base)
			require.Len(t, top.Dirs, 2)
			require.NoError(t, top.Release())
			require.NoError(t, bottom.Release())
			topNote := filepath.Join(filepath.Dir(top.Dirs[0]), "note")
			before, err := os.ReadFile(topNote)
			require.NoError(t, err)
			note := filepath.Join(filepath.Dir(bottom.Dirs[0]), "note")
			data, err := os.ReadFile(note)
			require.NoError(t, err)
			if text := spoil(string(data)); text == "" {
				require.NoError(t, os.RemoveAll(filepath.Dir(note)))
			} else {
				require.NoError(t, os.WriteFile(note, []byte(text), 0o600))
			}
			if name == "another start" || name == "torn" {
				require.NoError(t, os.Truncate(filepath.Join(bottom.Dirs[0], "b"), 0))
			}
			stack := acquire(t, l, m)
			require.Equal(t, full(files), union(t, stack.Dirs))
			after, err := os.ReadFile(topNote)
			require.NoError(t, err)
			require.NotEqual(t, before, after, "it was made again")
		})
	}
}

// A mounted stack is its tree, and what is done over it is collected as from the whole tree,
// whatever was changed, whichever layers are still there.
func TestAttemptsOverLayers(t *testing.T) {
	t.Parallel()
	if !proctest.InMounts(t) {
		return
	}
	top := t.TempDir()
	dir, err := os.OpenRoot(top)
	require.NoError(t, err)
	defer dir.Close()
	s := openStore(t, filepath.Join(top, "store"))
	root := filepath.Join(top, "layers")
	l := openLayers(t, s, root, nil)
	empty := openLayers(t, s, root, func(o *layers.Options) { o.MaxBytes = 1 })
	rapid.Check(t, func(t *rapid.T) {
		tree := put(t, s, castest.Tree(t))
		near := tree
		for range rapid.IntRange(1, 6).Draw(t, "attempts") {
			stack := acquire(t, l, tree, near)
			near = tree
			room := filepath.Join(top, "room")
			for _, d := range []string{room, room + "/dir", room + "/upper", room + "/work"} {
				require.NoError(t, os.Mkdir(d, 0o755))
			}
			tree = attempt(t, s, stack, tree, room)
			require.NoError(t, stack.Release())
			require.NoError(t, bounded.RemoveAll(dir, "room"))
			if rapid.IntRange(0, 5).Draw(t, "collect") == 0 {
				require.NoError(t, empty.Collect(t.Context()))
			}
		}
	})
}

// attempt works over a tree and returns the one that it leaves.
func attempt(t *rapid.T, s *cas.Store, stack *layers.Stack, tree spec.Digest, room string) spec.Digest {
	mounted := func(do func(dir string)) {
		unmount, err := proctest.Overlay(room+"/dir", stack.Dirs, room+"/upper", room+"/work")
		require.NoError(t, err)
		defer func() { require.NoError(t, unmount()) }()
		do(room + "/dir")
	}
	mounted(func(dir string) {
		same, err := s.Collect(t.Context(), session.Collect{Base: tree, Dir: dir})
		require.NoError(t, err)
		require.Equal(t, tree, same.Output, "the mounted stack is its tree")
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		defer root.Close()
		for range rapid.IntRange(0, 6).Draw(t, "operations") {
			castest.Operation(t, root)
		}
	})
	out, err := s.Collect(t.Context(), session.Collect{Base: tree, Lower: tree, Dir: room + "/upper"})
	mounted(func(dir string) {
		whole, wholeErr := s.Collect(t.Context(), session.Collect{Base: tree, Dir: dir})
		if wholeErr != nil {
			require.EqualError(t, err, wholeErr.Error())
			out.Output = tree
			return
		}
		require.NoError(t, err)
		require.Equal(t, whole, out)
	})
	return out.Output
}
