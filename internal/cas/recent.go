package cas

import (
	"sync"

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
