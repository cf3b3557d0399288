package gateway

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

// Enter waits until a call that does not pass through the gateway may begin within the limits of
// its provider. tokens is the size of its prompt. The caller must call leave at its end, with the
// tokens that it used. An error means that the context ends before.
func (g *Gateway) Enter(ctx context.Context, provider string, tokens int64) (leave func(used int64), err error) {
	g.mu.Lock()
	p := g.providers[provider]
	g.mu.Unlock()
	if p == nil {
		return func(int64) {}, nil
	}
	end, counted, err := p.limits.takePlace(ctx, tokens)
	if err != nil {
		return nil, err
	}
	return func(used int64) {
		end()
		p.limits.addTokens(g.o.Now(), used-counted)
	}, nil
}

// limiter enforces the limits of a provider.
type limiter struct {
	requests, tokens *rate.Limiter // nil: no limit
	concurrent       *semaphore.Weighted
}

func newLimiter(l Limits) *limiter {
	out := &limiter{requests: perMinute(l.RequestsPerMinute), tokens: perMinute(l.TokensPerMinute)}
	if l.Concurrent > 0 {
		out.concurrent = semaphore.NewWeighted(l.Concurrent)
	}
	return out
}

// perMinute permits a tenth of the limit at once, and the rest evenly: no minute has more than the limit.
func perMinute(n int64) *rate.Limiter {
	if n <= 0 {
		return nil
	}
	burst := max(n/10, 1)
	return rate.NewLimiter(rate.Limit(float64(max(n-burst, 1))/60), int(burst))
}

// takePlace waits until a call with a prompt of so many tokens may begin. The call lasts until leave.
// counted is how many tokens were counted. It fails if the wait would exceed the context's deadline.
func (l *limiter) takePlace(ctx context.Context, tokens int64) (leave func(), counted int64, err error) {
	leave = func() {}
	if l.concurrent != nil {
		if err := l.concurrent.Acquire(ctx, 1); err != nil {
			return nil, 0, err
		}
		leave = func() { l.concurrent.Release(1) }
	}
	if l.requests != nil {
		err = l.requests.Wait(ctx)
	}
	if err == nil && l.tokens != nil {
		counted = min(tokens, int64(l.tokens.Burst()))
		err = l.tokens.WaitN(ctx, int(counted))
	}
	if err != nil {
		leave()
		return nil, 0, err
	}
	return leave, counted, nil
}

// addTokens counts tokens that takePlace has not counted. Later calls wait for them.
func (l *limiter) addTokens(now time.Time, tokens int64) {
	for l.tokens != nil && tokens > 0 {
		part := min(tokens, int64(l.tokens.Burst()))
		l.tokens.ReserveN(now, int(part))
		tokens -= part
	}
}
