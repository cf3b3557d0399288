package caches

import (
	"context"
	"io/fs"
	"math/bits"
	"os"
	"syscall"
	"time"

	"github.com/djherbis/times"

	"github.com/maestro-hive/maestro/internal/platform/bounded"
	"github.com/maestro-hive/maestro/internal/platform/diskspace"
)

// ages are the sizes of a cache's items by the time since their last use, so that the oldest can
// be found however many there are: class 0 is of less than a second, class n of less than 2^n.
type ages struct {
	now     time.Time
	classes [40]diskspace.Used // the last has all that is older, which is 17,000 years
	total   diskspace.Used
	// hidden: some of it could not be measured, because it is too deep or not readable.
	hidden bool
}

// item is what is removed as a whole: a file, an empty directory, or a directory that its owner may
// not write, with its content. Package managers make such directories, like Go those of modules, and
// do not notice that one lacks a file.
type item struct {
	diskspace.Used
	// class is that of its last used file.
	class int
	// hidden: some of it could not be measured.
	hidden bool
	// content: it is a directory with its content.
	content bool
}

// add adds what is below a directory.
func (it item) add(below item) item {
	return item{it.Add(below.Used), min(it.class, below.class), it.hidden || below.hidden, it.content}
}

// walk visits the items below a directory. hidden reports that not all could be visited. The error
// is that of ctx.
func (a *ages) walk(ctx context.Context, root *os.Root, visit func(bounded.Entry, item)) (hidden bool, err error) {
	var parent *os.Root
	var inside bool // what is in parent is part of an item
	nothing := item{class: len(a.classes) - 1}
	below := nothing // what was visited of an item
	return bounded.Walk(ctx, root, maxDepth, func(e bounded.Entry) {
		if e.Dir != parent {
			info, err := e.Dir.Stat(".")
			parent, inside = e.Dir, err == nil && isReadOnly(info)
		}
		it := item{diskspace.Used{Files: 1, Bytes: onDisk(e.Info)}, a.class(e.Info), e.Hidden, e.Info.IsDir() && isReadOnly(e.Info)}
		switch {
		case inside:
			below = it.add(below)
			return
		case it.content:
			it, below = it.add(below), nothing
		}
		visit(e, it)
	})
}

// isReadOnly reports whether the owner of a directory may not write it.
func isReadOnly(info fs.FileInfo) bool { return info.Mode()&0o200 == 0 }

// measure measures the files below a directory. The error is that of ctx.
func measure(ctx context.Context, dir *os.Root, now time.Time) (*ages, error) {
	a := &ages{now: now}
	hidden, err := a.walk(ctx, dir, func(_ bounded.Entry, it item) {
		a.classes[it.class], a.total = a.classes[it.class].Add(it.Used), a.total.Add(it.Used)
		a.hidden = a.hidden || it.hidden
	})
	a.hidden = a.hidden || hidden
	return a, err
}

// class is the class of a file.
func (a *ages) class(info fs.FileInfo) int {
	seconds := max(0, int64(a.now.Sub(lastUse(info))/time.Second)) // a program may have set any time
	return min(bits.Len64(uint64(seconds)), len(a.classes)-1)
}

// remove removes the oldest classes until no more than keep is left, and what is hidden. It returns
// what was removed.
func (a *ages) remove(ctx context.Context, dir *os.Root, keep diskspace.Used) (gone diskspace.Used) {
	oldest, kept := 0, diskspace.Used{}
	for ; oldest < len(a.classes); oldest++ {
		if kept = kept.Add(a.classes[oldest]); over(kept, keep) {
			break
		}
	}
	_, _ = a.walk(ctx, dir, func(e bounded.Entry, it item) {
		var err error
		switch {
		case it.hidden, it.content && it.class >= oldest:
			err = bounded.RemoveAll(e.Dir, e.Info.Name())
		case it.class < oldest, e.Info.IsDir() && a.total.Files <= keep.Files: // programs expect their directories
			return
		default: // a directory only if it is empty
			err = e.Dir.Remove(e.Info.Name())
		}
		if err == nil {
			gone = gone.Add(it.Used)
		}
	})
	return gone
}

// onDisk is how much disk space a file uses, in bytes.
func onDisk(info fs.FileInfo) int64 {
	st, _ := info.Sys().(*syscall.Stat_t)
	return st.Blocks * 512 // whatever the file system's own blocks are
}

// lastUse is when a file was last read or changed, as far as its file system notes it.
func lastUse(info fs.FileInfo) time.Time {
	last := info.ModTime()
	at := times.Get(info)
	if at.ChangeTime().After(last) {
		last = at.ChangeTime()
	}
	if at.AccessTime().After(last) && !info.IsDir() { // measuring reads directories
		last = at.AccessTime()
	}
	return last
}
