package breaker

import (
	"context"
	"sync"
	"time"
)

// readingLimit limits the time of one reading.
const readingLimit = 5 * time.Second

// QuietFor is the age up to which [Client.Recent] returns the last reading of a breaker that was
// closed without a counted failure. Events on several workers within this time have no defined
// order anyway.
const QuietFor = 100 * time.Millisecond

// reads lets callers that arrive during a reading of a breaker share the next one. It begins after
// they have arrived, so each caller sees every change that was acknowledged before its call.
type reads struct {
	mu sync.Mutex
	// next are the readings that have not begun, by the breaker's name; busy are the breakers that
	// are being read.
	next map[string]*reading
	busy map[string]bool
	// last are the readings that may be returned again.
	last map[string]*reading
}

type reading struct {
	done chan struct{} // closed when the rest is set
	view View
	err  error
}

// recent returns a reading that began at most [QuietFor] ago, and after this process last changed
// the breaker, if that reading was quiet; otherwise it returns what read returns.
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

// changed records that this process may have changed a breaker.
func (r *reads) changed(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, name)
}

// expire prevents that a reading is returned again.
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

// join returns the next reading of a breaker. Some caller begins it.
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

// begin takes the next reading of a breaker; nil: no caller waits for one.
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
