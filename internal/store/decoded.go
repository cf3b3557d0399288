package store

import (
	"sync"

	"github.com/maestro-hive/maestro/internal/spec"
)

// maxDecodedBytes bounds a cache, by the stored size of its content in bytes.
const maxDecodedBytes = 16 << 20

// decodedCache caches decoded blobs and documents by digest. A full cache is cleared.
type decodedCache[T any] struct {
	mu    sync.Mutex
	held  map[spec.Digest]T
	bytes int
}

func (c *decodedCache[T]) get(name spec.Digest) (T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.held[name]
	return v, ok
}

func (c *decodedCache[T]) add(name spec.Digest, v T, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil || c.bytes+size > maxDecodedBytes {
		c.held, c.bytes = map[spec.Digest]T{}, 0
	}
	c.held[name] = v
	c.bytes += size
}

func (c *decodedCache[T]) remove(name spec.Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, name)
}
