package cas

import (
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/maestro-hive/maestro/internal/spec"
)

// maxRecent is the largest number of digests in a RecentDigests: about a megabyte.
const maxRecent = 8192

// RecentDigests is a bounded set of recently added digests. It may lose digests; then the caller
// repeats a check or a flush. Its zero value is empty. It is safe for concurrent use.
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

// Add adds a digest. If the set is full, it is cleared first.
func (r *RecentDigests) Add(d spec.Digest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == nil || len(r.held) >= maxRecent {
		r.held = map[spec.Digest]struct{}{}
	}
	r.held[d] = struct{}{}
}

// Clear removes all digests.
func (r *RecentDigests) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = nil
}

// The limits of the cache of directories.
const (
	// recentDirs is the largest number of cached directories, with at most maxEntries each: at
	// most 30 MB.
	recentDirs = 64
	// recentFor is how long a cached directory is used. At the end of a phase and the start of
	// the next, a directory is read several times within that time. Damage is detected at most
	// that much later.
	recentFor = time.Second
)

// cachedDir is a directory of a tree that was read and verified.
type cachedDir struct {
	entries []dirEntry
	totals  totals
	read    time.Time
}

// dirCache caches the directories that were read last.
type dirCache struct {
	now  func() time.Time
	dirs *lru.Cache[spec.Digest, cachedDir]
}

func newDirCache(now func() time.Time) dirCache {
	dirs, err := lru.New[spec.Digest, cachedDir](recentDirs)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return dirCache{now, dirs}
}

// fill sets the content of a stored directory from the cache, and reports whether the cache had
// it.
func (r dirCache) fill(d *treeDir) bool {
	was, ok := r.dirs.Get(d.blob)
	if age := r.now().Sub(was.read); !ok || age >= recentFor || age < 0 || d.totals != (totals{}) && d.totals != was.totals {
		return false
	}
	d.entries, d.totals, d.read = stillStored(was.entries), was.totals, true
	return true
}

// add adds a directory that was read.
func (r dirCache) add(d *treeDir) {
	if len(d.entries) <= maxEntries {
		r.dirs.Add(d.blob, cachedDir{stillStored(d.entries), d.totals, r.now()})
	}
}

// stillStored copies the entries of a directory. Their subdirectories are marked as not read.
func stillStored(entries []dirEntry) []dirEntry {
	entries = slices.Clone(entries)
	for i, e := range entries {
		if e.sub != nil {
			entries[i].sub = &treeDir{blob: e.sub.blob, stored: true, totals: e.sub.totals}
		}
	}
	return entries
}
