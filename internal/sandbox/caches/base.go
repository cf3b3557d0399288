package caches

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/platform/bounded"
	"github.com/maestro-hive/maestro/internal/platform/diskspace"
)

const (
	// maxLayers is how many layers a base has. Then the next one begins with nothing, and so loses what is old.
	maxLayers = 8
	// refreshAfter is how long a check does not warm a base up again that it has filled.
	refreshAfter = 24 * time.Hour
	// The parts of a base: the directories of layers and of notes, and the mark of one that is too large.
	layersDir, notesDir, fullMark = "layers", "notes", "full"
)

// Base is what the checks of one team have left in one cache on this host, on files that no agent has changed: layers
// for overlays, which attempts read and never write. Several processes may use it.
type Base struct {
	dir string
	max diskspace.Used
}

// NewBase returns the base of a team's cache, below the root of the caches.
func NewBase(root, team, cache string, most diskspace.Used) Base {
	return Base{dir: filepath.Join(teams(root), team, cache), max: most}
}

// teams is the directory of all bases, beside the shared caches.
func teams(root string) string { return filepath.Clean(root) + "-of-teams" }

// Held is a base in use. Its layers are not removed until it is released.
type Held struct {
	// Layers are directories, the topmost first; none: there is nothing.
	Layers []string

	generation string
	lock       *os.File
}

// Release permits the removal of the layers.
func (h *Held) Release() {
	if h.lock != nil {
		_ = h.lock.Close() // only locked
	}
}

// Hold returns the newest layers. begin: new ones if those are too many, or too large.
func (b Base) Hold(begin bool) (held *Held, err error) {
	err = b.locked(func() error {
		held, err = b.hold(begin)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("use the cache %s: %w", b.dir, err)
	}
	return held, nil
}

func (b Base) hold(begin bool) (*Held, error) {
	old, err := names(b.dir)
	if err != nil {
		return nil, err
	}
	h := &Held{}
	if len(old) > 0 {
		h.generation = filepath.Join(b.dir, old[len(old)-1])
		old = old[:len(old)-1]
		layers, err := names(filepath.Join(h.generation, layersDir))
		if err != nil {
			return nil, err
		}
		for _, name := range layers {
			h.Layers = append([]string{filepath.Join(h.generation, layersDir, name)}, h.Layers...)
		}
	}
	if begin && (h.generation == "" || len(h.Layers) >= maxLayers || exists(filepath.Join(h.generation, fullMark))) {
		*h = Held{generation: nextName(b.dir, h.generation)}
		if err := errors.Join(os.MkdirAll(filepath.Join(h.generation, layersDir), 0o711),
			os.Mkdir(filepath.Join(h.generation, notesDir), 0o700)); err != nil {
			return nil, err
		}
	}
	if h.generation == "" {
		return h, nil
	}
	h.lock, err = openLocked(h.generation, unix.LOCK_SH)
	for _, name := range old {
		removeUnused(b.dir, name)
	}
	return h, err
}

// IsDue reports whether a check should run on an input, which no agent has changed, to fill the base: it never has,
// or has left nothing for another input, or has not for long.
func (b Base) IsDue(check, input string, now time.Time) bool {
	generations, err := names(b.dir)
	if err != nil || len(generations) == 0 {
		return err == nil
	}
	newest := filepath.Join(b.dir, generations[len(generations)-1])
	note := filepath.Join(newest, notesDir, check)
	info, err := os.Lstat(note)
	if err != nil || exists(filepath.Join(newest, fullMark)) {
		return true
	}
	was, _ := os.ReadFile(note)
	filled, left, _ := strings.Cut(string(was), " ")
	return filled != input && (left != someLeft || now.Sub(info.ModTime()) > refreshAfter)
}

// someLeft is in the note of a check that has left something.
const someLeft = "filled"

// Add makes what a check of an input has written above the held layers the newest layer. It does nothing if another one
// was added meanwhile. All of the check's processes must have ended.
func (b Base) Add(ctx context.Context, h *Held, written, check, input string, now time.Time) error {
	return b.locked(func() error {
		is, err := b.hold(false)
		if err != nil {
			return err
		}
		defer is.Release()
		if is.generation != h.generation || len(is.Layers) != len(h.Layers) {
			return nil
		}
		left := "empty"
		if entries, err := os.ReadDir(written); err == nil && len(entries) > 0 {
			left = someLeft
			if err := os.Rename(written, nextName(filepath.Join(h.generation, layersDir),
				filepath.Join(h.generation, layersDir, strconv.Itoa(len(h.Layers))))); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(h.generation, notesDir, check), []byte(input+" "+left), 0o600); err != nil {
			return err
		}
		return b.markFull(ctx, h.generation, now)
	})
}

// markFull marks layers that are too large together.
func (b Base) markFull(ctx context.Context, generation string, now time.Time) error {
	dir, err := os.OpenRoot(filepath.Join(generation, layersDir))
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // only read
	used, err := measure(ctx, dir, now)
	if err != nil || !over(used.total, b.max) {
		return err
	}
	return os.WriteFile(filepath.Join(generation, fullMark), nil, 0o600)
}

// locked does something while no other process changes the base.
func (b Base) locked(do func() error) error {
	if err := os.MkdirAll(b.dir, 0o711); err != nil {
		return err
	}
	lock, err := openLocked(b.dir, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // only locked
	return do()
}

// Lock keeps other processes from filling the base by a check; ok is false if one does.
func (b Base) Lock() (unlock func(), ok bool) {
	dir := filepath.Join(b.dir, "filling")
	if os.MkdirAll(dir, 0o711) != nil {
		return nil, false
	}
	lock, err := openLocked(dir, unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return nil, false
	}
	return func() { _ = lock.Close() }, true
}

// openLocked opens and locks a directory. The lock ends when it is closed.
func openLocked(dir string, how int) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), how); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// removeUnused removes layers that nobody holds.
func removeUnused(dir, name string) (removed bool) {
	lock, err := openLocked(filepath.Join(dir, name), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return false
	}
	defer lock.Close() //nolint:errcheck // only locked
	return bounded.RemoveTree(filepath.Join(dir, name)) == nil
}

// FreeBases removes all bases that nobody uses, below the root of the caches, and reports whether there were any.
func FreeBases(root string) (removed bool) {
	for _, dir := range bounded.Below(teams(root), 2) {
		b := Base{dir: dir}
		_ = b.locked(func() error {
			generations, err := names(dir)
			for _, name := range generations {
				removed = removeUnused(dir, name) || removed
			}
			return err
		})
	}
	return removed
}

// nextName returns the path of the directory after the last one; empty: there is none.
func nextName(dir, last string) string {
	n, _ := strconv.Atoi(filepath.Base(last))
	return filepath.Join(dir, fmt.Sprintf("%06d", n+1))
}

// exists reports whether there is a file.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// names lists the entries of a directory with numbers as names, the smallest first. That there is none is no error.
func names(dir string) (found []string, err error) {
	entries, err := os.ReadDir(dir) // sorted
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if e.IsDir() && strings.Trim(e.Name(), "0123456789") == "" {
			found = append(found, e.Name())
		}
	}
	return found, err
}
