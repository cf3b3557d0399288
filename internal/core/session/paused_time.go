package session

import (
	"sync"
	"time"
)

// PausedTime adds up the time in which an attempt waits for what others have: the rest of a budget, the store, a place in a
// provider's limits. Such time is no part of the time that the attempt may take. Its methods may be called by many
// goroutines. A nil *PausedTime never waits.
type PausedTime struct {
	now func() time.Time

	mu      sync.Mutex
	waiting int
	since   time.Time
	total   time.Duration
}

// NewPausedTime returns the time of waits, measured with a clock.
func NewPausedTime(now func() time.Time) *PausedTime { return &PausedTime{now: now} }

// Begin begins a wait until end is called. Several waits at a time count once.
func (w *PausedTime) Begin() (end func()) {
	if w == nil {
		return func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting++; w.waiting == 1 {
		w.since = w.now()
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.waiting--; w.waiting == 0 {
			w.total += w.now().Sub(w.since)
		}
	}
}

// Waiting reports whether a wait is in progress.
func (w *PausedTime) Waiting() bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting > 0
}

// Total returns the time of all waits so far.
func (w *PausedTime) Total() time.Duration {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting > 0 {
		return w.total + w.now().Sub(w.since)
	}
	return w.total
}

// Timer calls a function after a time without waits.
type Timer struct {
	waits *PausedTime
	f     func()

	mu      sync.Mutex
	timer   *time.Timer
	counted time.Duration
}

// AfterFunc calls f in its own goroutine once d has passed without waits.
func (w *PausedTime) AfterFunc(d time.Duration, f func()) *Timer {
	t := &Timer{waits: w, f: f, counted: w.Total()}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(d, t.fire)
	return t
}

// fire calls the function, or waits for as long as there were waits.
func (t *Timer) fire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.waits.Total()
	if more := now - t.counted; more > 0 {
		t.counted = now
		t.timer.Reset(more)
		return
	}
	go t.f()
}

// Reset begins the time anew.
func (t *Timer) Reset(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counted = t.waits.Total()
	t.timer.Reset(d)
}

// Stop ends the timer. A call of the function may have begun.
func (t *Timer) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer.Stop()
}
