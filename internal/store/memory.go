package store

import (
	"sync"

	"github.com/maestro-hive/maestro/internal/team"
)

// remembered is how many digests a memory holds: about a megabyte of them.
const remembered = 8192

// memory is a set of the digests that were added last. Its zero value is empty,
// and it may be used from many goroutines.
type memory struct {
	mu   sync.Mutex
	held map[team.Digest]struct{}
	// ring has what is held, the oldest at next.
	ring []team.Digest
	next int
}

func (m *memory) has(d team.Digest) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.held[d]
	return ok
}

// add forgets the oldest digest where there is no room for another.
func (m *memory) add(d team.Digest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.held[d]; ok {
		return
	}
	if m.held == nil {
		m.held = map[team.Digest]struct{}{}
	}
	if len(m.ring) < remembered {
		m.ring = append(m.ring, d)
	} else {
		delete(m.held, m.ring[m.next])
		m.ring[m.next] = d
		m.next = (m.next + 1) % remembered
	}
	m.held[d] = struct{}{}
}

func (m *memory) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held, m.ring, m.next = nil, nil, 0
}
