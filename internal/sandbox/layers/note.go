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

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// layer is the content of a layer's note.
type layer struct {
	// ID is unique. Layers that had the same name before or later have other ids.
	ID string
	// Boot is the boot id of the host when the layer was made.
	Boot     string
	Manifest spec.Digest
	// Bytes is the size of its files on the disk, in whole blocks of 4096 bytes.
	Bytes int64
	// Below names the layer that this one changes; empty: it holds a whole tree.
	Below   string
	BelowID string
	// Stamp identifies its files: see [stampOf].
	Stamp string
}

// noteFile is the file with a layer's note, beside its tree.
const noteFile = "note"

// errNoLayer: the directory is not a layer that can be used.
var errNoLayer = errors.New("no layer of this start of the host")

// readNote returns a layer's note. After an error the layer must not be used.
func (l *Layers) readNote(name string) (at layer, err error) {
	note, err := os.ReadFile(filepath.Join(l.path(name), noteFile))
	if err == nil {
		err = json.Unmarshal(note, &at)
	}
	if err != nil {
		return at, err
	}
	if at.Boot != l.boot || !at.Manifest.Valid() || !strings.HasPrefix(name, prefixOf(at.Manifest)) {
		return at, errNoLayer
	}
	return at, nil
}

func (a layer) writeNote(dir string) error {
	note, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, noteFile), note, 0o600)
}

// The kinds of locks.
const (
	shared    = syscall.LOCK_SH
	exclusive = syscall.LOCK_EX
	// exclusiveNoWait fails with errInUse instead of waiting.
	exclusiveNoWait = syscall.LOCK_EX | syscall.LOCK_NB
)

var errInUse = errors.New("in use")

// open opens a directory below the root and locks it; nil if it does not exist. Locks for which
// other processes wait are held for a short time only.
func (l *Layers) open(name string, how int) (*os.File, error) {
	f, err := os.Open(l.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // it does not exist
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
	return nil, nil //nolint:nilnil // it was removed
}

// openUnused opens and locks a directory that nobody uses; nil if it does not exist or is in use.
func (l *Layers) openUnused(name string) (*os.File, error) {
	f, err := l.open(name, exclusiveNoWait)
	if errors.Is(err, errInUse) {
		return nil, nil //nolint:nilnil // it is in use
	}
	return f, err
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

// unlock unlocks and closes a file. Closing alone may unlock it late: a process that is being
// started has a copy of the descriptor until exec.
func unlock(f *os.File) error {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	return f.Close()
}

// withRootLock calls do while the names below the root are locked: shared for adding names,
// exclusive for removing them.
func (l *Layers) withRootLock(how int, do func() error) error {
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
