package breaker

import (
	"context"
	"sync"
	"time"
)

// readingLimit bounds one reading.
const readingLimit = 5 * time.Second

// reads has those who come while a breaker is being read share the next reading. It begins
// after all of them have come, so each sees every change that was acknowledged before.
type reads struct {
	mu sync.Mutex
	// next are the readings that have yet to begin, by the breaker's name; busy are the
	// breakers that are being read.
	next map[string]*reading
	busy map[string]bool
}

type reading struct {
	done chan struct{} // closed when the rest is set
	view View
	err  error
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
		r.next, r.busy = map[string]*reading{}, map[string]bool{}
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
	}
	return now
}
