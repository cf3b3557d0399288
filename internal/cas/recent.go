package cas

import (
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/maestro-hive/maestro/internal/spec"
)

// maxRecent is how many digests a set of recent ones holds: about a megabyte of them.
const maxRecent = 8192

// RecentDigests is a set of digests that was not full since they were added. It may
// forget: then something is checked or flushed once more. Its zero value is empty, and it
// may be used from many goroutines.
type RecentDigests struct {
	mu   sync.Mutex
	held map[spec.Digest]struct{}
}

// Has reports whether a digest is in the set.
func (r *RecentDigests) Has(d spec.Digest) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.held[d]
	return ok
}

// Add adds a digest. It empties a full set first.
func (r *RecentDigests) Add(d spec.Digest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == nil || len(r.held) >= maxRecent {
		r.held = map[spec.Digest]struct{}{}
	}
	r.held[d] = struct{}{}
}

// Clear empties the set.
func (r *RecentDigests) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = nil
}

// What is remembered of directories of trees.
const (
	// recentDirs is how many at most, with maxEntries each: at most 30 MB.
	recentDirs = 64
	// recentFor is for how long. The work at the end of a phase and the start of the next reads
	// a directory several times within that, and damage is not overlooked for longer.
	recentFor = time.Second
)

// recentDir is a directory of a tree that was read and verified.
type recentDir struct {
	entries []dirEntry
	totals  totals
	read    time.Time
}

// recentlyRead has the directories that were read last.
type recentlyRead struct {
	now  func() time.Time
	dirs *lru.Cache[spec.Digest, recentDir]
}

func newRecentlyRead(now func() time.Time) recentlyRead {
	dirs, err := lru.New[spec.Digest, recentDir](recentDirs)
	if err != nil {
		panic(err) // its size is not positive
	}
	return recentlyRead{now, dirs}
}

// into has a directory that is stored be read, and reports whether it could.
func (r recentlyRead) into(d *treeDir) bool {
	was, ok := r.dirs.Get(d.blob)
	if age := r.now().Sub(was.read); !ok || age >= recentFor || age < 0 || d.totals != (totals{}) && d.totals != was.totals {
		return false
	}
	d.entries, d.totals, d.read = stillStored(was.entries), was.totals, true
	return true
}

// add remembers a directory that was read.
func (r recentlyRead) add(d *treeDir) {
	if len(d.entries) <= maxEntries {
		r.dirs.Add(d.blob, recentDir{stillStored(d.entries), d.totals, r.now()})
	}
}

// stillStored copies the entries of a directory, with subdirectories that are not read.
func stillStored(entries []dirEntry) []dirEntry {
	entries = slices.Clone(entries)
	for i, e := range entries {
		if e.sub != nil {
			entries[i].sub = &treeDir{blob: e.sub.blob, stored: true, totals: e.sub.totals}
		}
	}
	return entries
}
