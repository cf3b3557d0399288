package service

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// workerSlot is a numbered slot for one of a store's workers on a host. A worker that restarts
// after a crash acquires the same slot, and with it the identity of its unfinished activities
// in Temporal. The lock ends with the process, so a slot has one holder at most.
type workerSlot struct {
	name string
	lock *flock.Flock
}

// identity returns the worker's identity in Temporal: its slot and, after a space, its build.
func identity(store string, s *workerSlot, version string) string {
	if version == "" {
		return "maestro-" + store + "@" + s.name
	}
	return "maestro-" + store + "@" + s.name + " " + version
}

// sameSlot reports whether two identities, of any builds, have the same slot.
func sameSlot(a, b string) bool {
	a, _, _ = strings.Cut(a, " ")
	b, _, _ = strings.Cut(b, " ")
	return a == b
}

// maxSlots bounds the workers of one store on one host.
const maxSlots = 1000

// acquireSlot locks the first free slot.
func acquireSlot(dir, host string) (*workerSlot, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the directory of workers: %w", err)
	}
	for n := range maxSlots {
		s := &workerSlot{name: fmt.Sprintf("%s-%d", host, n)}
		s.lock = flock.New(filepath.Join(dir, s.name+".lock"), flock.SetPermissions(0o600))
		free, err := s.lock.TryLock()
		if err != nil {
			return nil, fmt.Errorf("lock the worker's slot %s: %w", s.name, err)
		}
		if free {
			return s, nil
		}
	}
	return nil, fmt.Errorf("this host already has %d workers on the store", maxSlots)
}

// release unlocks the slot. The lock file stays: without it two workers could each hold a lock.
func (s *workerSlot) release() error { return s.lock.Unlock() }
