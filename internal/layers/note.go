package layers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/maestro-hive/maestro/internal/bounded"
	"github.com/maestro-hive/maestro/internal/spec"
)

// layer is what a layer's note says of it.
type layer struct {
	// ID tells the layer from others of its name, before and after it.
	ID string `json:"id"`
	// Boot is the start of the host that the layer was made after.
	Boot     string      `json:"boot"`
	Manifest spec.Digest `json:"manifest"`
	// Below names the layer that this one is a change of; empty: it holds a whole tree.
	Below   string `json:"below,omitempty"`
	BelowID string `json:"below_id,omitempty"`
	// Bytes is what its files take up on the disk, in blocks of 4096 bytes. Those that it
	// shares with other layers by hard links count in each.
	Bytes int64 `json:"bytes"`
}

const (
	noteFile = "note"
	maxNote  = 4 << 10
)

// errNoLayer says that a directory is no layer that can be used.
var errNoLayer = errors.New("no layer of this start of the host")

// read returns a layer's note. An error says that the layer is not to be used.
func (l *Layers) read(name string) (at layer, err error) {
	data, err := bounded.ReadFile(filepath.Join(l.path(name), noteFile), maxNote)
	if err != nil {
		return at, err
	}
	if err := json.Unmarshal(data, &at); err != nil {
		return at, err
	}
	if at.Boot != l.boot || !at.Manifest.Valid() || !strings.HasPrefix(name, prefixOf(at.Manifest)) {
		return at, errNoLayer
	}
	return at, nil
}

func (a layer) write(dir string) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, noteFile), data, 0o600)
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
