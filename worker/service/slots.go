package service

import (
	"context"
	"sync"

	"go.temporal.io/sdk/worker"
)

// slots bounds how many rounds of one agent run in this process. It is a [worker.SlotSupplier] that can be resized.
// With the bound 0, an agent's queue is not polled any more: a poller that got a slot just before its queue stops would
// receive a task from Temporal and drop it, and Temporal would retry that only after its heartbeat timeout.
type slots struct {
	mu           sync.Mutex
	limit, taken int
	// changed is closed when a slot may have become free.
	changed chan struct{}
}

func newSlots() *slots { return &slots{changed: make(chan struct{})} }

// resize sets the bound. Running rounds above it continue.
func (s *slots) resize(limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = limit
	s.wake()
}

func (s *slots) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// take takes a slot, or returns a channel that is closed when a slot may have become free.
func (s *slots) take() (ok bool, again <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= s.limit {
		return false, s.changed
	}
	s.taken++
	return true, nil
}

// ReserveSlot waits for a slot.
func (s *slots) ReserveSlot(ctx context.Context, _ worker.SlotReservationInfo) (*worker.SlotPermit, error) {
	for {
		ok, again := s.take()
		if ok {
			return &worker.SlotPermit{}, nil
		}
		select {
		case <-again:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// TryReserveSlot takes a slot if one is free.
func (s *slots) TryReserveSlot(worker.SlotReservationInfo) *worker.SlotPermit {
	if ok, _ := s.take(); ok {
		return &worker.SlotPermit{}
	}
	return nil
}

// MarkSlotUsed does nothing: a poll already holds a slot.
func (s *slots) MarkSlotUsed(worker.SlotMarkUsedInfo) {}

// ReleaseSlot gives a slot back.
func (s *slots) ReleaseSlot(worker.SlotReleaseInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	s.wake()
}

// MaxSlots returns the bound.
func (s *slots) MaxSlots() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limit
}

// tuner returns a tuner with these slots for activities.
func (s *slots) tuner() worker.WorkerTuner {
	// for what such a queue does not serve; a bound above 0 is no error
	fixed, _ := worker.NewFixedSizeSlotSupplier(1)
	tuner, _ := worker.NewCompositeTuner(worker.CompositeTunerOptions{ // which refuses nothing
		WorkflowSlotSupplier: fixed, ActivitySlotSupplier: s, LocalActivitySlotSupplier: fixed,
		NexusSlotSupplier: fixed, SessionActivitySlotSupplier: fixed,
	})
	return tuner
}
