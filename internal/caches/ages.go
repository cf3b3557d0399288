package caches

import (
	"context"
	"io/fs"
	"math/bits"
	"os"
	"syscall"
	"time"

	"github.com/maestro-hive/maestro/internal/bounded"
	"github.com/maestro-hive/maestro/internal/diskspace"
)

// ages are the sizes of a cache's files by the time since their last use, so that the oldest can
// be found however many there are: class 0 is of less than a second, class n of less than 2^n.
type ages struct {
	now     time.Time
	classes [40]diskspace.Used // the last has all that is older, which is 17,000 years
	total   diskspace.Used
	// hidden: some of it could not be measured, because it is too deep or not readable.
	hidden bool
}

// measure measures the files below a directory. The error is that of ctx.
func measure(ctx context.Context, dir *os.Root, now time.Time) (*ages, error) {
	a := &ages{now: now}
	hidden, err := bounded.Walk(ctx, dir, maxDepth, func(e bounded.Entry) {
		size := diskspace.Used{Files: 1, Bytes: onDisk(e.Info)}
		class := a.class(e.Info)
		a.classes[class], a.total = a.classes[class].Add(size), a.total.Add(size)
		a.hidden = a.hidden || e.Hidden
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
	_, _ = bounded.Walk(ctx, dir, maxDepth, func(e bounded.Entry) {
		var err error
		switch {
		case e.Hidden:
			err = bounded.RemoveAll(e.Dir, e.Info.Name())
		case a.class(e.Info) < oldest, e.Info.IsDir() && a.total.Files <= keep.Files: // programs expect their directories
			return
		default: // a directory only if it is empty
			err = e.Dir.Remove(e.Info.Name())
		}
		if err == nil {
			gone = gone.Add(diskspace.Used{Files: 1, Bytes: onDisk(e.Info)})
		}
	})
	return gone
}

// onDisk is how much disk space a file uses, in bytes.
func onDisk(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512 // whatever the file system's own blocks are
	}
	return info.Size()
}
