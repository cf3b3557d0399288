package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/bounded"
	"github.com/maestro-hive/maestro/internal/session"
)

// A disk counts as full with less than a sixteenth of it left, or less than this.
const (
	lowPart        = 16
	lowBytes int64 = 256 << 20
	lowFiles int64 = 10_000
)

// maxDepth is how deep in directories a measurement goes, each of which it keeps open.
const maxDepth = 256

// IsFull tells of an error that a disk, or its owner's part of it, has no room.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Disk tells what the disk has left that agents work on.
func (s *Store) Disk() (session.Disk, error) {
	d, err := diskOf(s.workRoot)
	if errors.Is(err, fs.ErrNotExist) {
		d, err = diskOf(s.dir)
	}
	d.MaxWritten = s.limits.DiskBytes
	return d, err
}

func diskOf(dir string) (d session.Disk, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return d, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	block := int64(st.Bsize) //nolint:unconvert // the types differ by platform
	return session.Disk{
		Free: int64(st.Bavail) * block, Low: min(int64(st.Blocks)*block/lowPart, lowBytes), //nolint:gosec // no disk is that large
		FreeFiles: int64(st.Ffree), LowFiles: min(int64(st.Files)/lowPart, lowFiles), //nolint:gosec // no disk has that many files
	}, nil
}

// Written measures what was written into an assignment's directories since a time, and
// is still there: the blocks that are allocated, so that holes count for nothing. An agent
// may be at work there.
func (s *Store) Written(ctx context.Context, dir session.WorkDir, since time.Time) (session.Written, error) {
	m := measurement{since: since.UnixNano(), linked: map[stamp]bool{}}
	if since.IsZero() {
		m.since = 0
	}
	base := filepath.Dir(dir.Tree)
	root, err := os.OpenRoot(base)
	if err != nil {
		return session.Written{Hidden: errors.Is(err, fs.ErrPermission)}, nil
	}
	defer root.Close() //nolint:errcheck // only read
	if err := m.dir(ctx, root, maxDepth); err != nil {
		return m.sum, fmt.Errorf("measure %s: %w", base, err)
	}
	return m.sum, nil
}

// measurement adds up what is in a directory.
type measurement struct {
	// since is the time in nanoseconds from which on a change counts.
	since int64
	// linked are the files of several names that are counted already.
	linked map[stamp]bool
	sum    session.Written
}

func (m *measurement) dir(ctx context.Context, root *os.Root, depth int) error {
	entries, err := list(root)
	if err != nil || depth == 0 {
		m.sum.Hidden = m.sum.Hidden || !errors.Is(err, fs.ErrNotExist)
		return ctx.Err()
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // it is gone
		}
		m.add(info)
		if info.IsDir() {
			if err := m.subdir(ctx, root, info, depth); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

func (m *measurement) subdir(ctx context.Context, root *os.Root, info fs.FileInfo, depth int) error {
	sub, err := openSubdir(root, info.Name(), info, false)
	if err != nil {
		m.sum.Hidden = m.sum.Hidden || errors.Is(err, fs.ErrPermission)
		return ctx.Err()
	}
	defer sub.Close() //nolint:errcheck // only read
	return m.dir(ctx, sub, depth-1)
}

func (m *measurement) add(info fs.FileInfo) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return
	}
	if changed, ok := stampOf(info); ok && changed.Changed < m.since {
		return
	}
	if st.Nlink > 1 && !info.IsDir() {
		file := stamp{Device: uint64(st.Dev), Inode: st.Ino} //nolint:unconvert // the types differ by platform
		if m.linked[file] {
			return
		}
		m.linked[file] = true
	}
	m.sum.Files++
	m.sum.Bytes += st.Blocks * 512 // whatever the file system's own blocks are
}

// ClearTmp removes everything in an assignment's TMPDIR. Nothing may be at work there.
func (s *Store) ClearTmp(dir session.WorkDir) error {
	return s.clearDir(dir, filepath.Base(dir.Tmp))
}

// ClearWork removes everything that an agent has left in an assignment's directories:
// first TMPDIR, then the tree, then the rest. Nothing may be at work there.
func (s *Store) ClearWork(dir session.WorkDir) error {
	if err := s.dropIndex(dir.Tree); err != nil {
		return fmt.Errorf("forget %s: %w", dir.Tree, err)
	}
	names := []string{filepath.Base(dir.Tmp), filepath.Base(dir.Tree)}
	entries, err := os.ReadDir(filepath.Dir(dir.Tree))
	if err != nil {
		return err
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return s.clearDir(dir, names...)
}

// clearDir removes what has these names in an assignment's directory, and makes the
// directories again that agents need.
func (s *Store) clearDir(dir session.WorkDir, names ...string) (err error) {
	base := filepath.Dir(dir.Tree)
	root, err := os.OpenRoot(base)
	if err != nil {
		return fmt.Errorf("clear %s: %w", base, err)
	}
	defer closing(root, &err)
	var failed error
	for _, name := range names {
		failed = errors.Join(failed, bounded.RemoveAll(root, name))
	}
	for _, d := range []string{dir.Tree, dir.Home, dir.Tmp} {
		failed = errors.Join(failed, makeWorkDir(d))
	}
	return failed
}
