package workdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/maestro-hive/maestro/internal/diskspace"
	"github.com/maestro-hive/maestro/internal/session"
)

// maxDepth is how deep in directories measuring and copying go, which keep each open.
const maxDepth = 256

// Disk returns what the disk has left that agents work on.
func (d *Dirs) Disk() (session.Disk, error) {
	dir := d.options.Root
	left, err := diskspace.Of(dir)
	for ; errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir); left, err = diskspace.Of(dir) {
		dir = filepath.Dir(dir) // nobody has worked yet
	}
	return session.Disk{
		Free: left.Bytes, Low: left.LowBytes, FreeFiles: left.Files, LowFiles: left.LowFiles,
		MaxWritten: d.options.MaxWritten, MaxWrittenFiles: d.options.MaxWrittenFiles,
	}, err
}

// Written measures what was written into an assignment's directories since a time, and
// is still there: the blocks that are allocated, so that holes count for nothing. An agent
// may be at work there.
func (d *Dirs) Written(ctx context.Context, w session.WorkDir, since time.Time) (session.Written, error) {
	m := measurement{since: since.UnixNano(), linked: map[inode]bool{}}
	if since.IsZero() {
		m.since = 0
	}
	base := filepath.Dir(w.Tree)
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

// inode is a file, whatever its names.
type inode struct{ device, number uint64 }

// measurement adds up what is in a directory.
type measurement struct {
	// since is the time in nanoseconds from which on a change counts.
	since int64
	// linked are the files of several names that are counted already.
	linked map[inode]bool
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

func list(root *os.Root) ([]fs.DirEntry, error) {
	f, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	return f.ReadDir(-1)
}

func (m *measurement) subdir(ctx context.Context, root *os.Root, info fs.FileInfo, depth int) error {
	sub, err := root.OpenRoot(info.Name())
	if err != nil {
		m.sum.Hidden = m.sum.Hidden || errors.Is(err, fs.ErrPermission)
		return ctx.Err()
	}
	defer sub.Close() //nolint:errcheck // only read
	if now, err := sub.Stat("."); err != nil || !os.SameFile(now, info) {
		return ctx.Err() // the agent has put another one in its place
	}
	return m.dir(ctx, sub, depth-1)
}

func (m *measurement) add(info fs.FileInfo) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || changed(st) < m.since {
		return
	}
	if st.Nlink > 1 && !info.IsDir() {
		file := inode{uint64(st.Dev), st.Ino} //nolint:unconvert // the types differ by platform
		if m.linked[file] {
			return
		}
		m.linked[file] = true
	}
	m.sum.Files++
	m.sum.Bytes += st.Blocks * 512 // whatever the file system's own blocks are
}
