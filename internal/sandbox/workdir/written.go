package workdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/djherbis/times"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/platform/bounded"
	"github.com/maestro-hive/maestro/internal/platform/diskspace"
)

// maxDepth bounds how deep measuring and copying descend: they keep each directory open.
const maxDepth = 256

// Disk returns the free space of the disk on which agents work, and the limits. If space is being
// freed, it waits for the end of that.
func (d *Dirs) Disk() (session.Disk, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.disk()
}

// disk reads the disk. The caller holds d.mu.
func (d *Dirs) disk() (session.Disk, error) {
	dir := d.options.Root
	left, err := diskspace.Of(dir)
	for ; errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir); left, err = diskspace.Of(dir) {
		dir = filepath.Dir(dir) // the root is made with the first working directory
	}
	return session.Disk{
		Free: left.Bytes, Low: left.LowBytes, FreeFiles: left.Files, LowFiles: left.LowFiles, Freed: d.freed,
		MaxWritten: d.options.MaxWritten, MaxWrittenFiles: d.options.MaxWrittenFiles,
	}, err
}

// FreeDisk removes from a full disk what can be made again, such as unused layers. It reports
// whether there was any.
func (d *Dirs) FreeDisk(ctx context.Context) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.options.Free == nil {
		return false
	}
	before, err := d.disk()
	if !d.options.Free(ctx) {
		return false
	}
	if err != nil || before.IsFull() {
		d.freed++
	}
	return true
}

// Written measures the files of an assignment's directories that were changed since a time:
// their allocated blocks, so that holes do not count. An agent may be at work there.
func (d *Dirs) Written(ctx context.Context, w session.WorkDir, since time.Time) (session.Written, error) {
	base := filepath.Dir(w.Tree)
	root, err := os.OpenRoot(base)
	if err != nil {
		return session.Written{Hidden: errors.Is(err, fs.ErrPermission)}, nil
	}
	defer root.Close() //nolint:errcheck // only read
	m := measurement{base: root, since: since.UnixNano(), linked: map[inode]bool{}}
	if since.IsZero() {
		m.since = 0
	}
	hidden, err := bounded.Walk(ctx, root, maxDepth, m.add)
	m.sum.Hidden = m.sum.Hidden || hidden
	if err != nil {
		return m.sum, fmt.Errorf("measure %s: %w", base, err)
	}
	return m.sum, nil
}

// inode identifies a file that may have several names.
type inode struct{ device, number uint64 }

// measurement adds up the files of a directory.
type measurement struct {
	base *os.Root
	// since: changes since this time count, in nanoseconds.
	since int64
	// linked are the files with several names that are counted already.
	linked map[inode]bool
	sum    session.Written
}

func (m *measurement) add(e bounded.Entry) {
	m.sum.Hidden = m.sum.Hidden || e.Hidden && !m.isOfKernel(e.Info)
	st, ok := e.Info.Sys().(*syscall.Stat_t)
	if !ok || times.Get(e.Info).ChangeTime().UnixNano() < m.since {
		return
	}
	if st.Nlink > 1 && !e.Info.IsDir() {
		file := inode{uint64(st.Dev), st.Ino} //nolint:unconvert // only compared; macOS has another type
		if m.linked[file] {
			return
		}
		m.linked[file] = true
	}
	m.sum.Files++
	m.sum.Bytes += st.Blocks * 512 // whatever the file system's own blocks are
}

// isOfKernel reports whether a directory is the one that an overlay moves files from, which nobody
// else may read. No agent sees it.
func (m *measurement) isOfKernel(info fs.FileInfo) bool {
	dirs := []string{overlayDir, filepath.Join(checkDir, overlayDir)}
	for _, views := range []string{session.CachesWorkDir, filepath.Join(checkDir, session.CachesWorkDir)} {
		entries, _ := fs.ReadDir(m.base.FS(), views)
		for _, e := range entries {
			dirs = append(dirs, filepath.Join(views, e.Name()))
		}
	}
	return slices.ContainsFunc(dirs, func(dir string) bool {
		work, err := m.base.Lstat(filepath.Join(dir, "work"))
		return err == nil && os.SameFile(work, info)
	})
}
