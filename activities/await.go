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

// How a wait for a breaker goes.
const (
	// pollLeast and pollMost bound the time between two looks at a breaker, by
	// however many assignments it is awaited.
	pollLeast = 2 * time.Second
	pollMost  = 5 * time.Second
	// pollSoon is the least, when the cooldown is about to be over.
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
	// Lease is that of the probe that the round is; its zero, for a round that may
	// simply begin.
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
	// status is what the poller last saw; its zero, nothing yet.
	status session.BreakerStatus
	stop   context.CancelFunc
}

type waiter struct {
	holder   string
	released chan Awaited
	// wanted asks whether the session still waits; unwanted is closed once it does not.
	wanted   func() bool
	unwanted chan struct{}
}

// Await returns when the breaker is closed, or when it is half-open and this
// wait is the one that got the lease; the others wait on. However long that
// takes, it adds nothing to the session's history. A stopping worker hands the
// wait over.
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
			return Awaited{}, handedOver(ErrUnwanted)
		case <-activity.GetWorkerStopChannel(ctx):
			return Awaited{}, handedOver(errHandedOver)
		case <-ctx.Done():
			return Awaited{}, temporal.NewCanceledError()
		case <-beat.C:
			wait = bw.news(in.Breaker.Name, wait)
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

// leave takes a waiter out; with the last the poller ends. A lease that the waiter has got
// and that nobody uses any more is given back.
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

// news is the wait as the poller last saw it.
func (bw *BreakerWaits) news(name string, wait session.BreakerWait) session.BreakerWait {
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
		if sleep(ctx, bw.look(ctx, name, q)) != nil {
			return
		}
	}
}

// look reads the breaker, releases the waiters that it allows, and returns when to look again.
func (bw *BreakerWaits) look(ctx context.Context, name string, q *waitQueue) time.Duration {
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

// probe gets a lease for the longest waiter and releases that. It finishes also when nobody
// waits any more: an unused lease would have to expire.
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
		bw.Logger.Warn("no lease from the breaker of an agent: it does not answer", "breaker", b.Name, "error", err)
	case answer.Effect == breaker.Leased:
		bw.release(ctx, q, first, answer)
		return true
	case answer.Effect == breaker.Passed:
		bw.releaseAll(q)
	}
	return false
}

// first is the waiter that has waited for the longest; nil: there is none.
func (bw *BreakerWaits) first(q *waitQueue) (spec.Breaker, *waiter) {
	bw.mu.Lock()
	defer bw.mu.Unlock()
	if len(q.waiters) == 0 {
		return q.breaker, nil
	}
	return q.breaker, q.waiters[0]
}

// drop ends a wait whose session does not wait any more.
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
