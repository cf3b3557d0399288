package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// LockLimit is how long Lock waits for other holders. A lock is normally held for a moment: a
// process that holds it for longer is stopped, or cannot write.
const LockLimit = 10 * time.Second

// The first and the longest pause between two attempts to take a lock.
const (
	firstPause   = 200 * time.Microsecond
	longestPause = 5 * time.Millisecond
)

// Lock implements [Storage] with a lock of a separate file. The file is not removed: locks of a
// removed file and of a new one would not exclude each other.
func (d *Directory) Lock(ctx context.Context, key string) (Locked, error) {
	return d.lock(ctx, key)
}

func (d *Directory) lock(ctx context.Context, key string) (*heldLock, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	f, err := d.openLock(os.O_RDWR, ".documents/"+key) // no key of a document begins with a dot
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", key, err)
	}
	if err := awaitFlock(ctx, f); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", key, err)
	}
	return &heldLock{d, f}, nil
}

// openLock opens the file of a lock. It makes the file and its directory if they do not exist.
func (d *Directory) openLock(mode int, key string) (*os.File, error) {
	path := filepath.Join(d.root, "locks", filepath.FromSlash(key))
	mode |= os.O_CREATE | unix.O_NONBLOCK // as in createFile
	f, err := os.OpenFile(path, mode, fileMode)
	if errors.Is(err, fs.ErrNotExist) {
		if err := d.makeDir(filepath.Dir(path), UntilPowerLoss); err != nil {
			return nil, fmt.Errorf("create the directory of a lock: %w", err)
		}
		f, err = os.OpenFile(path, mode, fileMode)
	}
	return f, err
}

// awaitFlock tries to lock a file until it succeeds, or until LockLimit or the context ends.
func awaitFlock(ctx context.Context, f *os.File) error {
	var limit <-chan time.Time
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		if limit == nil {
			limit = time.After(LockLimit)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit:
			return fmt.Errorf("another process has held the lock for %s; if that process is stopped, continue or end it", LockLimit)
		case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // jitter; not used for security
		}
	}
}

// withLock runs change while it holds the lock of a document.
func (d *Directory) withLock(key string, change func() error) (err error) {
	l, err := d.lock(context.Background(), key)
	if err != nil {
		return err
	}
	defer closing(l, &err)
	return change()
}

// heldLock is a lock that is held.
type heldLock struct {
	*Directory
	file *os.File
}

// Write implements [Locked].
func (l *heldLock) Write(key string, data []byte, version Version, durability Durability) (Version, error) {
	path, err := l.path(key)
	if err != nil {
		return "", err
	}
	if err := hasVersion(path, version); err != nil {
		return "", err
	}
	return VersionOf(data), l.WriteFile(path, data, durability)
}

// Close implements [Locked].
func (l *heldLock) Close() error { return l.file.Close() }

// Hold implements [Storage] with a file lock. Processes that inherit the descriptor hold the
// lock, too. The file is not removed: locks of a removed file and of a new one would not exclude
// each other.
func (d *Directory) Hold(key string) (Hold, bool, error) {
	if err := CheckKey(key); err != nil {
		return nil, false, err
	}
	// Open read-only first: that works on a read-only file system, too.
	f, err := d.tryFlock(os.O_RDONLY, key)
	if errors.Is(err, unix.EBADF) || errors.Is(err, unix.EIO) {
		f, err = d.tryFlock(os.O_RDWR, key) // NFS needs a writable descriptor for an exclusive lock
	}
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	return heldFile{f}, true, nil
}

func (d *Directory) tryFlock(mode int, key string) (*os.File, error) {
	f, err := d.openLock(mode, key)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// heldFile is a locked file.
type heldFile struct{ *os.File }

// Unlock releases the lock explicitly: closing the file would not release it if another process
// has inherited it.
func (l heldFile) Unlock() {
	_ = unix.Flock(int(l.Fd()), unix.LOCK_UN)
	_ = l.Close()
}

// withSweepLock runs change under the sweep lock. With [unix.LOCK_SH], no sweep runs; with
// [unix.LOCK_EX], also no process can mark a blob as used.
func (d *Directory) withSweepLock(how int, change func() error) (err error) {
	f, err := d.openLock(os.O_RDWR, ".sweep")
	if err != nil {
		return fmt.Errorf("lock the store's blobs: %w", err)
	}
	defer closing(f, &err)
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(f.Fd()), how)
	}
	if err != nil {
		return fmt.Errorf("lock the store's blobs: %w", err)
	}
	return change()
}
