package activities

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"go.temporal.io/sdk/activity"
	"golang.org/x/sync/semaphore"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// journalWriter writes an assignment's journal: each entry in the store first.
type journalWriter struct {
	ledgers Ledgers
	clock   Clock
	key     session.Key
	id      spec.AssignmentID
	// retryStore tries something with the store until the store can be used.
	retryStore func(ctx context.Context, try func() error) error

	// writing serialises appending: it is held from the decision on a call until the ledger is
	// updated. Its holder may wait for the store.
	writing *semaphore.Weighted
	// pending are numbered entries that could not be stored. The first may be there or
	// not, so they come before every other entry.
	pending []budget.Entry

	// mu guards the fields below. Its holder never waits.
	mu      sync.Mutex
	journal *budget.Journal
}

// open reads the assignment's journal. A call that an execution before this one did not
// end is unsettled from now on: its money may be spent.
func (w *journalWriter) open(ctx context.Context, programs ProgramUsage, workDirs WorkDirs) (err error) {
	if w.journal, err = fromStore(ctx, w.retryStore, func() (*budget.Journal, error) { return w.ledgers.Journal(w.key, w.id) }); err != nil {
		return err
	}
	for _, call := range w.journal.Open() {
		if err := w.append(ctx, unsettled(programs, workDirs, w.key, w.id, call)); err != nil {
			return err
		}
		ended := w.journal.Call(call.ID)
		activity.GetLogger(ctx).Warn("a paid call was in flight when its worker was lost; its unknown cost stays unsettled",
			"assignment", w.id.String(), "call", call.ID, "known", ended.Usage.Tokens(), "estimate", ended.Estimate.Tokens())
	}
	return nil
}

// read calls look with the journal, under the lock.
func (w *journalWriter) read(look func(j *budget.Journal)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	look(w.journal)
}

// next returns the number of the next entry.
func (w *journalWriter) next() int64 {
	if n := len(w.pending); n > 0 {
		return w.pending[n-1].Seq + 1
	}
	return w.journal.Next() // the caller holds writing
}

// append adds an entry to the journal. If ctx ends while the store cannot be used, the entry
// becomes pending.
func (w *journalWriter) append(ctx context.Context, e budget.Entry) error {
	w.queue(e)
	var applied error
	err := w.retryStore(ctx, func() (err error) {
		applied, err = w.flush()
		return err
	})
	return errors.Join(applied, err)
}

// queue numbers an entry, which is written with the next one. A newer report of a call replaces
// a pending one.
func (w *journalWriter) queue(e budget.Entry) {
	e.Seq, e.At = w.next(), w.clock().UTC()
	if n := len(w.pending); n > 1 && e.Kind == budget.Reported && w.pending[n-1].Kind == e.Kind && w.pending[n-1].Call == e.Call {
		e.Seq = w.pending[n-1].Seq
		w.pending = w.pending[:n-1]
	}
	w.pending = append(w.pending, e)
}

// flush writes the entries that are pending. err: the store cannot take one; applied: one
// cannot follow what the journal has.
func (w *journalWriter) flush() (applied, err error) {
	for len(w.pending) > 0 && applied == nil {
		e := w.pending[0]
		if err := w.ledgers.AppendEntry(w.key, w.id, e); err != nil {
			return nil, err
		}
		w.pending = w.pending[1:]
		w.read(func(j *budget.Journal) { applied = j.Apply(e) })
	}
	return applied, nil
}

// report appends a report of a call, or leaves it pending until the next entry.
func (w *journalWriter) report(e budget.Entry) error {
	if !w.writing.TryAcquire(1) {
		return nil // the next report comes soon
	}
	defer w.writing.Release(1)
	w.queue(e)
	applied, _ := w.flush() // or it is pending
	return applied
}

// spent returns the cost of the assignment, spentOn that of one attempt in one run.
func (w *journalWriter) spent() (sum cost.Usage) {
	w.read(func(j *budget.Journal) { sum = j.Spent() })
	return sum
}

func (w *journalWriter) spentOn(run string, attempt session.CallKey) (sum cost.Usage) {
	w.read(func(j *budget.Journal) { sum = j.SpentOn(run, attempt) })
	return sum
}

// unsettled returns the entry that ends a call which was in flight when its worker was lost.
// The files of an agent program have its usage since the last entry.
func unsettled(programs ProgramUsage, workDirs WorkDirs, key session.Key, id spec.AssignmentID, call budget.Call) budget.Entry {
	e := budget.Entry{Kind: budget.Unsettled, Call: call.ID}
	if call.Key.Turn != 0 || programs == nil {
		return e
	}
	dir, err := workDirs.Make(key, id)
	if err != nil {
		return e
	}
	if used, estimate, ok := programs.Reported(call.Agent, dir, call.ID); ok {
		estimate.CostUSD = cmp.Or(estimate.CostUSD, call.Estimate.CostUSD)
		e.Usage, e.Estimate = &used, &estimate
	}
	return e
}
