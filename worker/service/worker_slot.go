package service

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// seat is a worker's place among the workers of one store on one host. Its name
// is stable: a worker that comes back after a crash takes the seat that it had,
// and with it the identity under which Temporal knows its unfinished work. The
// lock on it dies with the process, so a seat never has two holders.
type seat struct {
	name string
	lock *flock.Flock
}

// identity is what Temporal knows a worker by: its seat and, behind a space, the
// build that holds it.
func identity(store string, s *seat, version string) string {
	if version == "" {
		return "maestro-" + store + "@" + s.name
	}
	return "maestro-" + store + "@" + s.name + " " + version
}

// sameSeat reports whether two identities are those of one seat, of whatever builds.
func sameSeat(a, b string) bool {
	a, _, _ = strings.Cut(a, " ")
	b, _, _ = strings.Cut(b, " ")
	return a == b
}

// maxSeats bounds the workers of one store on one host.
const maxSeats = 1000

// takeSeat takes the first free seat.
func takeSeat(dir, host string) (*seat, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the directory of workers: %w", err)
	}
	for n := range maxSeats {
		s := &seat{name: fmt.Sprintf("%s-%d", host, n)}
		s.lock = flock.New(filepath.Join(dir, s.name+".lock"), flock.SetPermissions(0o600))
		free, err := s.lock.TryLock()
		if err != nil {
			return nil, fmt.Errorf("lock the worker's seat %s: %w", s.name, err)
		}
		if free {
			return s, nil
		}
	}
	return nil, fmt.Errorf("this host already has %d workers on the store", maxSeats)
}

// leave gives the seat back. The lock's file stays: removing it could give two
// workers a lock each.
func (s *seat) leave() error { return s.lock.Unlock() }
