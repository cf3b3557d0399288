package service

import (
	"context"
	"sync"

	"go.temporal.io/sdk/worker"
)

// slots bounds how many rounds of one agent are at work in this process, also
// where a queue that is polled no more still has some.
type slots struct {
	mu           sync.Mutex
	limit, taken int
	// changed is closed when a slot may have become free.
	changed chan struct{}
}

func newSlots(limit int) *slots { return &slots{limit: limit, changed: make(chan struct{})} }

// resize sets the bound. What is at work beyond it continues.
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

// share is what one queue takes slots by. It is a [worker.SlotSupplier].
type share struct {
	*slots
	// over: the queue is to be polled no more. The slots' lock guards it.
	over bool
}

func (s *slots) share() *share { return &share{slots: s} }

// end has the queue begin no further poll. A poller that waited for a slot and got
// one just before its queue stops would be handed a task by Temporal and drop it:
// nobody would work on that until its heartbeat is missed.
func (s *share) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// take takes a slot, or returns what is closed when it is worth another try.
func (s *share) take() (ok bool, again <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.taken >= s.limit {
		return false, s.changed
	}
	s.taken++
	return true, nil
}

// ReserveSlot waits for a slot.
func (s *share) ReserveSlot(ctx context.Context, _ worker.SlotReservationInfo) (*worker.SlotPermit, error) {
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
func (s *share) TryReserveSlot(worker.SlotReservationInfo) *worker.SlotPermit {
	if ok, _ := s.take(); ok {
		return &worker.SlotPermit{}
	}
	return nil
}

// MarkSlotUsed makes no difference: a poll for work takes a slot, too.
func (s *slots) MarkSlotUsed(worker.SlotMarkUsedInfo) {}

// ReleaseSlot gives a slot back.
func (s *slots) ReleaseSlot(worker.SlotReleaseInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	s.wake()
}

// MaxSlots is the bound.
func (s *slots) MaxSlots() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limit
}

// tuner has a worker's activities take these slots.
func (s *share) tuner() (worker.WorkerTuner, error) {
	fixed, err := worker.NewFixedSizeSlotSupplier(1) // for what such a queue does not serve
	if err != nil {
		return nil, err
	}
	return worker.NewCompositeTuner(worker.CompositeTunerOptions{
		WorkflowSlotSupplier: fixed, ActivitySlotSupplier: s, LocalActivitySlotSupplier: fixed,
		NexusSlotSupplier: fixed, SessionActivitySlotSupplier: fixed,
	})
}
