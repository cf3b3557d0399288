package activities

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// The times of a wait for a breaker.
const (
	// pollLeast and pollMost bound the time between two reads of a breaker, for any
	// number of waiting assignments.
	pollLeast = 2 * time.Second
	pollMost  = 5 * time.Second
	// pollSoon is the shortest time, shortly before the end of the cooldown.
	pollSoon = 100 * time.Millisecond
	// waitBeat is how often a wait reports to Temporal.
	waitBeat = 10 * time.Second
)

// AwaitInput is for a wait until an assignment's round may try again.
type AwaitInput struct {
	spec.AssignmentID
	Breaker spec.Breaker        `json:"breaker"`
	Wait    session.BreakerWait `json:"wait"`
}

// Awaited ends a wait.
type Awaited struct {
	// Lease is the lease of a round that is a probe; zero: the round may begin without
	// one.
	Lease session.BreakerPermit `json:"lease,omitzero"`
}

// BreakerWaits waits for breakers on behalf of sessions. All waits for one
// breaker in one process share one poller.
type BreakerWaits struct {
	Breakers Breakers
	// Heartbeats reports whether a wait is still wanted that is to get a lease; nil: it is.
	Heartbeats Heartbeats
	Clock      Clock
	// Random spreads the polls.
	Random Random
	Logger *slog.Logger

	mu     sync.Mutex
	queues map[string]*waitQueue
}

// waitQueue has the waiters of one breaker, the longest first.
type waitQueue struct {
	breaker spec.Breaker
	waiters []*waiter
	// status is the result of the poller's last read; zero: it has not read yet.
	status session.BreakerStatus
	stop   context.CancelFunc
}

type waiter struct {
	holder   string
	released chan Awaited
	// wanted reports whether the session still waits; unwanted is closed when it does not.
	wanted   func() bool
	unwanted chan struct{}
}

// Await returns when the breaker is closed, or when it is half-open and this wait
// has got the lease; the other waits continue. The duration of the wait adds no
// events to the session's history. A stopping worker hands the wait over.
func (bw *BreakerWaits) Await(ctx context.Context, in AwaitInput) (Awaited, error) {
	info := activity.GetInfo(ctx)
	me := &waiter{holder: activityKey(info), released: make(chan Awaited, 1), unwanted: make(chan struct{})}
	me.wanted = func() bool { return bw.wanted(ctx, in.Wait) }
	bw.join(in.Breaker, me)
	defer bw.leave(ctx, in.Breaker, me)
	beat := time.NewTicker(waitBeat)
	defer beat.Stop()
	wait := in.Wait
	for {
		activity.RecordHeartbeat(ctx, Heartbeat{Progress: wait.String()})
		select {
		case awaited := <-me.released:
			return awaited, nil
		case <-me.unwanted:
			return Awaited{}, newHandedOver(ErrUnwanted)
		case <-activity.GetWorkerStopChannel(ctx):
			return Awaited{}, newHandedOver(errHandedOver)
		case <-ctx.Done():
			return Awaited{}, temporal.NewCanceledError()
		case <-beat.C:
			wait = bw.lastSeen(in.Breaker.Name, wait)
		}
	}
}

// wanted reports whether the session still waits. A session that has ended its wait does not
// receive a lease, and the activity learns of that end only with a later heartbeat.
func (bw *BreakerWaits) wanted(ctx context.Context, wait session.BreakerWait) bool {
	if bw.Heartbeats == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	err := bw.Heartbeats.Beat(ctx, Heartbeat{Progress: wait.String()})
	return !errors.Is(err, ErrUnwanted) && !errors.Is(err, ErrReplaced)
}

// join adds a waiter, and starts the breaker's poller for the first.
func (bw *BreakerWaits) join(b spec.Breaker, me *waiter) {
	bw.mu.Lock()
	defer bw.mu.Unlock()
	q := bw.queues[b.Name]
	if q == nil {
		ctx, stop := context.WithCancel(context.Background())
		q = &waitQueue{stop: stop}
		if bw.queues == nil {
			bw.queues = map[string]*waitQueue{}
		}
		bw.queues[b.Name] = q
		go bw.poll(ctx, b.Name, q)
	}
	q.breaker, q.waiters = b, append(q.waiters, me)
}

// leave removes a waiter; the poller ends with the last one. An unused lease of the waiter is
// released.
func (bw *BreakerWaits) leave(ctx context.Context, b spec.Breaker, me *waiter) {
	bw.remove(b.Name, me)
	select {
	case awaited := <-me.released:
		bw.giveBack(ctx, b, awaited.Lease)
	default:
	}
}

func (bw *BreakerWaits) remove(name string, me *waiter) {
	bw.mu.Lock()
	defer bw.mu.Unlock()
	q := bw.queues[name]
	if q == nil {
		return
	}
	q.waiters = slices.DeleteFunc(q.waiters, func(w *waiter) bool { return w == me })
	if len(q.waiters) == 0 {
		q.stop()
		delete(bw.queues, name)
	}
}

// lastSeen returns the wait with the breaker's state of the poller's last read.
func (bw *BreakerWaits) lastSeen(name string, wait session.BreakerWait) session.BreakerWait {
	bw.mu.Lock()
	defer bw.mu.Unlock()
	q := bw.queues[name]
	if q == nil || q.status.State != session.BreakerIsOpen {
		return wait
	}
	return q.status.WaitFor(wait.Since)
}

// poll reads a breaker for all its waiters, until there are none.
func (bw *BreakerWaits) poll(ctx context.Context, name string, q *waitQueue) {
	for {
		if sleep(ctx, bw.check(ctx, name, q)) != nil {
			return
		}
	}
}

// check reads the breaker, releases the waiters that may continue, and returns the time until the next check.
func (bw *BreakerWaits) check(ctx context.Context, name string, q *waitQueue) time.Duration {
	next := bw.Random.between(pollLeast, pollMost)
	bounded, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	view, err := bw.Breakers.Read(bounded, name)
	if err != nil {
		bw.Logger.Warn("a breaker that sessions wait for cannot be read", "breaker", name, "error", err)
		return next
	}
	now := bw.Clock()
	status := view.Status()
	bw.mu.Lock()
	q.status = status
	bw.mu.Unlock()
	status = status.At(now)
	switch status.State {
	case session.BreakerClosed:
		bw.releaseAll(q)
	case session.BreakerIsOpen:
		if status.OpenUntil != nil {
			next = min(next, max(status.OpenUntil.Sub(now), pollSoon))
		}
	case session.BreakerHalfOpen:
		for range view.Settings.For(name).Probes - len(status.Probes) {
			if !bw.probe(ctx, q) {
				break
			}
		}
	}
	return next
}

// probe gets a lease for the longest waiter and releases that waiter. It finishes even if no
// session waits any more: an unused lease blocks probes until it expires.
func (bw *BreakerWaits) probe(ctx context.Context, q *waitQueue) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
	defer cancel()
	b, first := bw.first(q)
	for first != nil && !first.wanted() {
		bw.drop(q, first)
		b, first = bw.first(q)
	}
	if first == nil {
		return false
	}
	answer, err := bw.Breakers.Acquire(ctx, fmt.Sprintf("%s/acquire/%d", first.holder, bw.Clock().UnixNano()), b, first.holder)
	switch {
	case err != nil:
		bw.Logger.Warn("no lease from the breaker of an agent: no answer", "breaker", b.Name, "error", err)
	case answer.Effect == breaker.Leased:
		bw.release(ctx, q, first, answer)
		return true
	case answer.Effect == breaker.Passed:
		bw.releaseAll(q)
	}
	return false
}

// first returns the waiter that has waited for the longest; nil: there is none.
func (bw *BreakerWaits) first(q *waitQueue) (spec.Breaker, *waiter) {
	bw.mu.Lock()
	defer bw.mu.Unlock()
	if len(q.waiters) == 0 {
		return q.breaker, nil
	}
	return q.breaker, q.waiters[0]
}

// drop ends a wait whose session no longer waits.
func (bw *BreakerWaits) drop(q *waitQueue, w *waiter) {
	bw.mu.Lock()
	defer bw.mu.Unlock()
	if i := slices.Index(q.waiters, w); i >= 0 {
		q.waiters = slices.Delete(q.waiters, i, i+1)
		close(w.unwanted)
	}
}

// release ends a wait with a lease. If the waiter has left meanwhile, the lease
// is given back.
func (bw *BreakerWaits) release(ctx context.Context, q *waitQueue, first *waiter, answer breaker.Answer) {
	lease := session.BreakerPermit{Generation: answer.State.Generation, Holder: first.holder}
	bw.mu.Lock()
	waits := slices.Contains(q.waiters, first)
	q.waiters = slices.DeleteFunc(q.waiters, func(w *waiter) bool { return w == first })
	if waits {
		first.released <- Awaited{Lease: lease}
	}
	b := q.breaker
	bw.mu.Unlock()
	if !waits {
		bw.giveBack(ctx, b, lease)
	}
}

// giveBack releases a lease that is not used.
func (bw *BreakerWaits) giveBack(ctx context.Context, b spec.Breaker, lease session.BreakerPermit) {
	if lease.Holder == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportLimit)
	defer cancel()
	if _, err := bw.Breakers.Report(ctx, lease.GiveBack(b, bw.Clock())); err != nil {
		bw.Logger.Warn("an unused lease could not be released; it expires", "breaker", b.Name, "error", err)
	}
}

func (bw *BreakerWaits) releaseAll(q *waitQueue) {
	bw.mu.Lock()
	defer bw.mu.Unlock()
	for _, w := range q.waiters {
		w.released <- Awaited{}
	}
	q.waiters = nil
}
