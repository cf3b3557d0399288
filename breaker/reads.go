package breaker

import (
	"context"
	"sync"
	"time"
)

// readingLimit bounds one reading.
const readingLimit = 5 * time.Second

// QuietFor is the age up to which [Client.Recent] returns what was read of a breaker that was
// closed and had counted no failure. What happens on several workers within this time has no
// order anyway.
const QuietFor = 100 * time.Millisecond

// reads has those who come while a breaker is being read share the next reading. It begins
// after all of them have come, so each sees every change that was acknowledged before.
type reads struct {
	mu sync.Mutex
	// next are the readings that have yet to begin, by the breaker's name; busy are the
	// breakers that are being read.
	next map[string]*reading
	busy map[string]bool
	// last are the readings that may stand for later ones.
	last map[string]*reading
}

type reading struct {
	done chan struct{} // closed when the rest is set
	view View
	err  error
}

// recent returns what a reading found that began at most [QuietFor] ago, and not before this
// process last changed the breaker, if that was quiet; else what read returns.
func (r *reads) recent(ctx context.Context, name string, read func(context.Context, string) (View, error)) (View, error) {
	r.mu.Lock()
	last := r.last[name]
	r.mu.Unlock()
	if last != nil {
		select {
		case <-last.done:
		case <-ctx.Done():
			return View{Name: name}, context.Cause(ctx)
		}
		if last.err == nil && last.view.State.quiet() {
			return last.view, nil
		}
	}
	return r.read(ctx, name, read)
}

// changed notes that this process may have changed a breaker.
func (r *reads) changed(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, name)
}

// expire has a reading stand for no later one.
func (r *reads) expire(name string, old *reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last[name] == old {
		delete(r.last, name)
	}
}

func (r *reads) read(ctx context.Context, name string, read func(context.Context, string) (View, error)) (View, error) {
	next := r.join(context.WithoutCancel(ctx), name, read)
	select {
	case <-next.done:
		return next.view, next.err
	case <-ctx.Done():
		return View{Name: name}, context.Cause(ctx)
	}
}

// join returns the next reading of a breaker, which somebody begins.
func (r *reads) join(ctx context.Context, name string, read func(context.Context, string) (View, error)) *reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next, r.busy, r.last = map[string]*reading{}, map[string]bool{}, map[string]*reading{}
	}
	if r.next[name] == nil {
		r.next[name] = &reading{done: make(chan struct{})}
	}
	next := r.next[name]
	if !r.busy[name] {
		r.busy[name] = true
		go func() {
			for now := r.begin(name); now != nil; now = r.begin(name) {
				bounded, cancel := context.WithTimeout(ctx, readingLimit)
				now.view, now.err = read(bounded, name)
				cancel()
				close(now.done)
			}
		}()
	}
	return next
}

// begin takes the next reading of a breaker; nil: nobody waits for one.
func (r *reads) begin(name string) *reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.next[name]
	delete(r.next, name)
	if now == nil {
		delete(r.busy, name)
		return nil
	}
	r.last[name] = now
	time.AfterFunc(QuietFor, func() { r.expire(name, now) })
	return now
}
