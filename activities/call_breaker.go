package activities

import (
	"context"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

const (
	// viewAge is how old the breaker's state may be for a call.
	viewAge = 2 * time.Second
	// defaultOpenWait is how long calls are refused by an open breaker without a known end of the cooldown.
	defaultOpenWait = time.Minute
)

// callBreaker applies the breaker of a round to the calls of an attempt, and reports them. It is a
// [session.CallBreaker].
type callBreaker struct {
	*agentBreaker
	ctx context.Context //nolint:containedctx // the attempt's context; reports outlive their calls

	mu     sync.Mutex
	seen   breaker.View
	readAt time.Time
}

// forCalls returns the breaker for the calls of an attempt; nil: there is none.
func (b *agentBreaker) forCalls(ctx context.Context) session.CallBreaker {
	if b.port == nil {
		return nil
	}
	return &callBreaker{agentBreaker: b, ctx: ctx}
}

// Open returns for how long calls are refused; zero: they are permitted. A breaker that cannot be read permits calls. A
// half-open one permits the calls of a probe.
func (b *callBreaker) Open() time.Duration {
	now, state := b.clock(), b.view().State
	switch state.At(now) {
	case session.BreakerIsOpen:
		if state.OpenUntil.IsZero() {
			return defaultOpenWait
		}
		return state.OpenUntil.Sub(now)
	case session.BreakerHalfOpen:
		if permit := b.log.get().Permit; permit == nil || permit.Holder == "" {
			return defaultOpenWait
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
			b.setView(b.reportProvider(b.ctx, nil))
		}
		return
	}
	permit := b.log.get().Permit
	if permit == nil || b.settings.WeighFailure(f) != failures.CountsAsFailure {
		return
	}
	b.setView(b.send(b.ctx, session.BreakerReport{
		ID: b.updateID("call"), Breaker: b.settings, Outcome: failures.CountsAsFailure,
		// The call began after the breaker was read, which may have been long after the round began.
		BreakerPermit: session.BreakerPermit{Generation: max(permit.Generation, state.Generation), Holder: permit.Holder},
		Category:      f.Category, Message: textfmt.Shorten(f.Message, session.MaxMessage), RetryAfter: f.RetryAfter,
	}))
}

// view returns the breaker's state, at most viewAge old; zero: it is unknown.
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

// setView stores the breaker's state after a report; nil: it is unknown.
func (b *callBreaker) setView(view *breaker.View) {
	if view == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if view.State.Revision >= b.seen.State.Revision {
		b.seen, b.readAt = *view, b.clock()
	}
}
