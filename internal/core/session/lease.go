package session

import (
	"sync"
	"time"
)

// The times of a lease. An agent is ended by its supervising process before another host can begin its work: the sum of
// LeaseHolds, and of what an extension takes to reach the process and the process to end the agent, is less than LeaseLasts.
const (
	// LeaseLasts is how long after its last renewal another host may take a lease, by the database's clock.
	LeaseLasts = 40 * time.Second
	// LeaseRenewEvery is how often the holder renews it.
	LeaseRenewEvery = 5 * time.Second
	// LeaseHolds is how long a renewal lets the work go on.
	LeaseHolds = 28 * time.Second
	// HeartbeatHolds is how long a heartbeat that Temporal has accepted lets the work go on: until Temporal's timeout of
	// heartbeats, nobody else is asked to do the work.
	HeartbeatHolds = 20 * time.Second
)

// Lease is the right to do some work while no other host begins it. It is safe for concurrent use. The store renews it, the
// execution of a round watches it, and the supervisor of the agent's process ends that when it is over.
type Lease struct {
	mu    sync.Mutex
	until time.Time
	lost  bool
}

// Extend makes the lease last until a time, unless it lasts longer or is lost.
func (l *Lease) Extend(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until.After(l.until) && !l.lost {
		l.until = until
	}
}

// Lose ends the lease: another host has taken it.
func (l *Lease) Lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = true
}

// Until is when the lease ends unless it is extended. lost reports whether another host has taken it.
func (l *Lease) Until() (until time.Time, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until, l.lost
}
