package layers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/maestro-hive/maestro/internal/spec"
)

// layer is what a layer's note says of it.
type layer struct {
	// ID tells the layer from others of its name, before and after it.
	ID string
	// Boot is the start of the host that the layer was made after.
	Boot     string
	Manifest spec.Digest
	// Bytes is what its files take up on the disk, in blocks of 4096 bytes. Those that it
	// shares with other layers by hard links count in each.
	Bytes int64
	// Below names the layer that this one is a change of; empty: it holds a whole tree.
	Below   string
	BelowID string
}

// noteLink has the fields of a [layer] in order, with blanks between, as its target: one call
// reads it, and those of a stack are read at each use.
const noteLink = "note"

// errNoLayer says that a directory is no layer that can be used.
var errNoLayer = errors.New("no layer of this start of the host")

// read returns a layer's note. An error says that the layer is not to be used.
func (l *Layers) read(name string) (at layer, err error) {
	note, err := os.Readlink(filepath.Join(l.path(name), noteLink))
	if err != nil {
		return at, err
	}
	f := strings.Split(note, " ")
	if len(f) != 6 {
		return at, errNoLayer
	}
	at = layer{ID: f[0], Boot: f[1], Manifest: spec.Digest(f[2]), Below: f[4], BelowID: f[5]}
	if at.Bytes, err = strconv.ParseInt(f[3], 10, 64); err != nil {
		return at, err
	}
	if at.Boot != l.boot || !at.Manifest.Valid() || !strings.HasPrefix(name, prefixOf(at.Manifest)) {
		return at, errNoLayer
	}
	return at, nil
}

func (a layer) write(dir string) error {
	note := []string{a.ID, a.Boot, string(a.Manifest), strconv.FormatInt(a.Bytes, 10), a.Below, a.BelowID}
	return os.Symlink(strings.Join(note, " "), filepath.Join(dir, noteLink))
}

// The kinds of locks.
const (
	shared = syscall.LOCK_SH
	alone  = syscall.LOCK_EX
	// tried fails with errInUse instead of waiting.
	tried = syscall.LOCK_EX | syscall.LOCK_NB
)

var errInUse = errors.New("in use")

// open opens a directory below the root and locks it; nil if it is not there. Locks that
// others wait for are held for a moment only.
func (l *Layers) open(name string, how int) (*os.File, error) {
	f, err := os.Open(l.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, err
	}
	if err := flock(f, how); err != nil {
		_ = f.Close()
		return nil, err
	}
	opened, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	// It may have been removed, and made again, before it was locked.
	now, err := os.Lstat(l.path(name))
	if err == nil && os.SameFile(opened, now) {
		return f, nil
	}
	_ = f.Close()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return nil, nil //nolint:nilnil // there is none any more
}

func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errInUse
		case err != nil:
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		return nil
	}
}

// unlock closes a file that was locked. A process that is just being started has its
// descriptor for a moment, too, so closing it alone may unlock it later.
func unlock(f *os.File) error {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	return f.Close()
}

// locked does something while the names below the root are locked: shared by those who add
// some, alone by who removes some.
func (l *Layers) locked(how int, do func() error) error {
	f, err := os.Open(l.o.Root)
	if err != nil {
		return err
	}
	defer unlock(f) //nolint:errcheck // only locked
	if err := flock(f, how); err != nil {
		return err
	}
	return do()
}
