// Package caches bounds the directories that agents and checks share on a host. What is in them
// can be made again, so a cache that grows too large loses the files that were not used for the
// longest time, also while programs use it.
package caches

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/bounded"
	"github.com/maestro-hive/maestro/internal/platform/diskspace"
)

const (
	// measureEvery is how often the caches are measured while the disk is not full.
	measureEvery = time.Minute
	// measureShare bounds the part of the time in which they are measured: 1/measureShare.
	measureShare = 4
	// maxHalvings bounds how often Free removes a half: programs may write meanwhile.
	maxHalvings = 8
	// maxDepth is how deep a cache may be. What is deeper is removed.
	maxDepth = 128
)

// Options are the settings of [New].
type Options struct {
	// Root is the directory that contains the caches. It need not exist.
	Root string
	// Max bounds each cache: its disk space, and the number of its files and directories.
	Max diskspace.Used
	// Left returns the free space of the disk of a directory. Nil: [diskspace.Of].
	Left func(dir string) (diskspace.Left, error)
	// Clock returns the current time. Required.
	Clock func() time.Time
	// Logger gets what was removed. Required.
	Logger *slog.Logger
}

// Caches are the caches of a host. Its methods may be used by many goroutines.
type Caches struct {
	options Options

	mu sync.Mutex // held while the caches are measured
	// measured is when they were last measured, took how long that took, and left what the disk had then, in bytes.
	measured time.Time
	took     time.Duration
	left     int64
}

// New returns the caches below a directory.
func New(o Options) *Caches {
	if o.Left == nil {
		o.Left = diskspace.Of
	}
	return &Caches{options: o}
}

// Trim removes the least recently used files of each cache that exceeds the limit, until at most
// half of the limit is left; on a full disk, half of what there is. It may be called each second: it measures the caches
// once a minute, on a full disk, and when the disk has lost a quarter of a cache's limit.
func (c *Caches) Trim(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	left, err := c.options.Left(c.options.Root)
	if err != nil || !c.due(left) { // mostly there are no caches
		return
	}
	c.trim(ctx, left.IsLow())
}

// Free removes the least recently used half of each cache if their disk is full, and again so until
// it is not. It reports whether there was anything to remove.
func (c *Caches) Free(ctx context.Context) (removed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range maxHalvings {
		left, err := c.options.Left(c.options.Root)
		if err != nil || !left.IsLow() || !c.trim(ctx, true) {
			break
		}
		removed = true
	}
	return removed
}

// due reports whether the caches have to be measured again.
func (c *Caches) due(left diskspace.Left) bool {
	passed := c.options.Clock().Sub(c.measured)
	grown := c.left-left.Bytes > c.options.Max.Bytes/4
	return c.measured.IsZero() || passed >= measureShare*c.took && (grown || left.IsLow() || passed >= measureEvery)
}

// trim measures the caches and removes files of those that exceed the limit; if the disk is full,
// of all. It reports whether it has removed anything.
func (c *Caches) trim(ctx context.Context, full bool) (removed bool) {
	root, err := os.OpenRoot(c.options.Root)
	if err != nil {
		return false
	}
	defer root.Close() //nolint:errcheck // only read
	names, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return false
	}
	began := c.options.Clock()
	for _, name := range names {
		removed = c.trimOne(ctx, root, name.Name(), full) || removed
	}
	if ctx.Err() == nil {
		c.measured, c.took = began, c.options.Clock().Sub(began)
		left, _ := c.options.Left(c.options.Root) // zero if it cannot be asked: then the minute counts
		c.left = left.Bytes
	}
	return removed
}

// trimOne measures a cache, and removes files if it exceeds the limit, or if the disk is full. It
// reports whether it has removed anything.
func (c *Caches) trimOne(ctx context.Context, root *os.Root, name string, full bool) bool {
	dir, err := root.OpenRoot(name)
	if err != nil {
		// An agent may have taken away the right.
		return errors.Is(err, fs.ErrPermission) && bounded.RemoveAll(root, name) == nil
	}
	defer dir.Close() //nolint:errcheck // only read

	// An agent may have taken away the right. In another user's directory root needs none.
	if info, err := dir.Stat("."); err == nil && isReadOnly(info) {
		_ = dir.Chmod(".", info.Mode()|0o700)
	}
	u, err := measure(ctx, dir, c.options.Clock())
	if err != nil {
		return false
	}
	keep, limit := u.total, c.options.Max
	if full {
		keep = half(u.total)
	}
	if over(u.total, limit) {
		keep.Bytes, keep.Files = min(keep.Bytes, limit.Bytes/2), min(keep.Files, limit.Files/2)
	}
	if !over(u.total, keep) && !u.hidden {
		return false
	}
	gone := u.remove(ctx, dir, keep)
	if gone.Files > 0 {
		c.options.Logger.Info("removed files from a cache", "cache", name, "files", gone.Files, "bytes", textfmt.Size(gone.Bytes),
			"had", textfmt.Size(u.total.Bytes), "full_disk", full)
	}
	return gone.Files > 0
}

// over reports whether a size exceeds a bound.
func over(u, bound diskspace.Used) bool { return u.Bytes > bound.Bytes || u.Files > bound.Files }

func half(u diskspace.Used) diskspace.Used {
	return diskspace.Used{Files: u.Files / 2, Bytes: u.Bytes / 2}
}
