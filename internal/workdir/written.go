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

// maxDepth bounds how deep measuring and copying descend: they keep each directory open.
const maxDepth = 256

// Disk returns the free space of the disk on which agents work, and the limits.
func (d *Dirs) Disk() (session.Disk, error) {
	dir := d.options.Root
	left, err := diskspace.Of(dir)
	for ; errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir); left, err = diskspace.Of(dir) {
		dir = filepath.Dir(dir) // the root is made with the first working directory
	}
	return session.Disk{
		Free: left.Bytes, Low: left.LowBytes, FreeFiles: left.Files, LowFiles: left.LowFiles,
		MaxWritten: d.options.MaxWritten, MaxWrittenFiles: d.options.MaxWrittenFiles,
	}, err
}

// Written measures the files of an assignment's directories that were changed since a time:
// their allocated blocks, so that holes do not count. An agent may be at work there.
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

// inode identifies a file that may have several names.
type inode struct{ device, number uint64 }

// measurement adds up the files of a directory.
type measurement struct {
	// since: changes since this time count, in nanoseconds.
	since int64
	// linked are the files with several names that are counted already.
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
		return ctx.Err() // the agent has replaced it
	}
	return m.dir(ctx, sub, depth-1)
}

func (m *measurement) add(info fs.FileInfo) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || changeTime(st) < m.since {
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
