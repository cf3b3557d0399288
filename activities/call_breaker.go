package activities

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

const (
	// viewAge is how old a breaker's state may be that a call is held to.
	viewAge = 2 * time.Second
	// openWait is how long calls are refused by a breaker whose end of being open is not known.
	openWait = time.Minute
)

// callBreaker holds the calls of an attempt to the breaker of its round, and reports them. It is a
// [session.CallBreaker].
type callBreaker struct {
	*agentBreaker
	ctx     context.Context //nolint:containedctx // the attempt's: calls have none of their own that outlives them
	reports atomic.Int64

	mu     sync.Mutex
	seen   breaker.View
	readAt time.Time
}

// forCalls is the breaker as the calls of an attempt see it; nil: there is none.
func (b *agentBreaker) forCalls(ctx context.Context) session.CallBreaker {
	if b.port == nil {
		return nil
	}
	return &callBreaker{agentBreaker: b, ctx: ctx}
}

// Open returns for how long calls are refused. A breaker that cannot be read refuses none. In a half-open one the
// calls of a probe are made.
func (b *callBreaker) Open() time.Duration {
	now, state := b.clock(), b.view().State
	switch state.At(now) {
	case session.BreakerIsOpen:
		if state.OpenUntil.IsZero() {
			return openWait
		}
		return state.OpenUntil.Sub(now)
	case session.BreakerHalfOpen:
		if permit := b.log.get().Permit; permit == nil || permit.Holder == "" {
			return openWait
		}
	case session.BreakerClosed:
	}
	return 0
}

// Report reports a failure. An answer is reported if there have been failures before.
func (b *callBreaker) Report(f *failures.Failure) {
	state := b.view().State
	if f == nil {
		if state.Failures > 0 || state.Open {
			b.keep(b.reportProvider(b.ctx, session.AttemptFailure{}))
		}
		return
	}
	permit := b.log.get().Permit
	if permit == nil || b.settings.Weigh(f.Category) != failures.CountsAsFailure {
		return
	}
	b.keep(b.send(b.ctx, session.BreakerReport{
		ID: fmt.Sprintf("%s/%d", b.updateID("call"), b.reports.Add(1)), Breaker: b.settings, Outcome: failures.CountsAsFailure,
		// The call began after the breaker was read, which may have been long after the round began.
		BreakerPermit: session.BreakerPermit{Generation: max(permit.Generation, state.Generation), Holder: permit.Holder},
		Category:      f.Category, Message: textfmt.Shorten(f.Message, session.MaxMessage),
	}))
}

// view is the breaker as it was a moment ago; its zero where that is not known.
func (b *callBreaker) view() breaker.View {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.clock(); now.Sub(b.readAt) >= viewAge {
		bounded, cancel := context.WithTimeout(b.ctx, reportLimit)
		defer cancel()
		if view, err := b.port.Read(bounded, b.settings.Name); err == nil {
			b.seen = view
		}
		b.readAt = now
	}
	return b.seen
}

// keep takes what a report has brought; nil: nothing.
func (b *callBreaker) keep(view *breaker.View) {
	if view == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if view.State.Revision >= b.seen.State.Revision {
		b.seen, b.readAt = *view, b.clock()
	}
}
