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

// LockLimit is how long a lock is waited for that others hold for a moment: a process that
// holds it for longer is stopped, or cannot write.
const LockLimit = 10 * time.Second

// The first and the longest pause between two tries to take a lock.
const (
	firstPause   = 200 * time.Microsecond
	longestPause = 5 * time.Millisecond
)

// Lock implements [Storage] by a lock of the file system on a file of its own, which stays:
// a lock on a removed file would exclude nobody.
func (d *Directory) Lock(ctx context.Context, key string) (Locked, error) {
	return d.lock(ctx, key)
}

func (d *Directory) lock(ctx context.Context, key string) (*held, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	f, err := d.openLock(os.O_RDWR, ".documents/"+key) // no namespace begins with a dot
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", key, err)
	}
	if err := awaitFlock(ctx, f); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", key, err)
	}
	return &held{d, f}, nil
}

// openLock opens the file of a lock, making it and its directory if need be.
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

// awaitFlock tries to lock a file until it is locked, or the limit or the context has ended.
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
		case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // spreads waits; guards nothing
		}
	}
}

// withLock runs change while nobody else writes the document of a key.
func (d *Directory) withLock(key string, change func() error) (err error) {
	l, err := d.lock(context.Background(), key)
	if err != nil {
		return err
	}
	defer closing(l, &err)
	return change()
}

// held is a lock that is held.
type held struct {
	*Directory
	file *os.File
}

// Write implements [Locked].
func (l *held) Write(key string, data []byte, version Version, durability Durability) (Version, error) {
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
func (l *held) Close() error { return l.file.Close() }

// Hold implements [Storage] by a lock of the file system, which every process has that
// inherits its descriptor. Its file stays: a lock on a removed file would exclude nobody.
func (d *Directory) Hold(key string) (Hold, bool, error) {
	if err := CheckKey(key); err != nil {
		return nil, false, err
	}
	// Read-only, so that it keeps no file system from being made so.
	f, err := d.tryFlock(os.O_RDONLY, key)
	if errors.Is(err, unix.EBADF) || errors.Is(err, unix.EIO) {
		f, err = d.tryFlock(os.O_RDWR, key) // NFS locks only what may be written
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

// heldFile is a file that is locked.
type heldFile struct{ *os.File }

// Unlock does more than to close the file, which others may have inherited.
func (l heldFile) Unlock() {
	_ = unix.Flock(int(l.Fd()), unix.LOCK_UN)
	_ = l.Close()
}

// withSweepLock runs change while others do not sweep; with [unix.LOCK_EX], while nobody
// marks a blob as used.
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
