package gateway_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/gateway"
	"github.com/maestro-hive/maestro/internal/testkit/callstest"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// breaker is one that is open, or notes what it is told.
type breaker struct {
	mu   sync.Mutex
	open time.Duration
	told []*failures.Failure
}

func (b *breaker) RetryAfter() time.Duration { return b.open }

func (b *breaker) Report(f *failures.Failure) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told = append(b.told, f)
}

func TestTheBreakerIsAskedAndTold(t *testing.T) {
	t.Parallel()
	closed, open := &breaker{}, &breaker{open: 90 * time.Second}
	var n atomic.Int64
	b := newBench(t, func(providertest.Request) providertest.Reply {
		if n.Add(1) <= 2 {
			return providertest.Failing(providertest.Fault{Status: 503, Header: http.Header{"Retry-After-Ms": {"1"}}})
		}
		return providertest.Say("yes")
	}, -1, nil)
	b.breaker = closed
	b.access = b.open(b.account)
	b.address = b.serve(t, b.access)
	b.asked(t, formats["messages"], true, "hello")
	require.Len(t, closed.told, 2, "a call fails once, however often it is tried")
	require.Equal(t, failures.APIError, closed.told[0].Category)
	require.Nil(t, closed.told[1])

	b.breaker = open
	b.access = b.open(b.account)
	b.address = b.serve(t, b.access)
	response, text := b.asked(t, formats["responses"], true, "hello")
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	require.Equal(t, "90", response.Header.Get("Retry-After"), text)
	require.Equal(t, int64(3), n.Load(), "nothing was sent")
	require.Equal(t, 90*time.Second, b.failures()[0].RetryAfter.Std())
}

// TestASpentMinuteIsTold: a program is told when to try again.
func TestASpentMinuteIsTold(t *testing.T) {
	t.Parallel()
	b := newBench(t, say("x"), -1, func(o *gateway.Options, p []gateway.Provider) {
		p[0].Limits.RequestsPerMinute, o.Patience = 1, time.Millisecond
	})
	b.asked(t, formats["messages"], true, "one")
	response, _ := b.asked(t, formats["messages"], true, "two")
	require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
	require.NotEmpty(t, response.Header.Get("Retry-After"))
	require.Equal(t, 1, b.provider.Count())
}

// TestAWaitForAPlaceIsNoTimeOfTheAttempt: its timeouts do not count it.
func TestAWaitForAPlaceIsNoTimeOfTheAttempt(t *testing.T) {
	t.Parallel()
	begun, goOn := make(chan struct{}, 2), make(chan struct{})
	b := newBench(t, func(providertest.Request) providertest.Reply {
		begun <- struct{}{}
		<-goOn
		return providertest.Say("x")
	}, -1, func(_ *gateway.Options, p []gateway.Provider) { p[0].Limits.Concurrent = 1 })
	release := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(release)
	var asking sync.WaitGroup
	ask := func(a *gateway.Access, address string) {
		response, _, err := post(t.Context(), t, address+"/anthropic/v1/messages", a.Token, `{"max_tokens":5,"messages":[]}`)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Error(err)
		}
	}
	other := b.open(callstest.New(-1))
	address := b.serve(t, other)
	asking.Go(func() { ask(other, address) })
	<-begun
	require.False(t, b.waits.Waiting(), "a call in flight is work")
	asking.Go(func() { ask(b.access, b.address) })
	require.Eventually(t, b.waits.Waiting, 20*time.Second, time.Millisecond)
	release()
	asking.Wait()
	require.False(t, b.waits.Waiting())
}

// poorAccount has a first call wait for its budget until paid is closed.
type poorAccount struct {
	*callstest.Account
	waits, paid chan struct{}
}

func (a *poorAccount) Begin(ctx context.Context, plan session.CallPlan) (session.Call, error) {
	plan.OnWait()
	close(a.waits)
	<-a.paid
	return a.Account.Begin(ctx, plan)
}

// TestACallThatWaitsForItsBudgetHoldsNoPlace of its provider. It takes one again before it is sent.
func TestACallThatWaitsForItsBudgetHoldsNoPlace(t *testing.T) {
	t.Parallel()
	b := newBench(t, say("x"), -1, func(_ *gateway.Options, p []gateway.Provider) { p[0].Limits.Concurrent = 1 })
	poor := &poorAccount{Account: callstest.New(-1), waits: make(chan struct{}), paid: make(chan struct{})}
	access := b.open(poor)
	address := b.serve(t, access)
	var asking sync.WaitGroup
	asking.Go(func() {
		response, text, err := post(t.Context(), t, address+"/anthropic/v1/messages", access.Token, `{"max_tokens":5,"messages":[]}`)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Errorf("%v %s", err, text)
		}
	})
	<-poor.waits
	response, text := b.asked(t, formats["messages"], true, "another")
	require.Equal(t, http.StatusOK, response.StatusCode, text)
	close(poor.paid)
	asking.Wait()
	require.Equal(t, 2, b.provider.Count())
	_, _, open := poor.Sum()
	require.Zero(t, open)
	response, text = b.asked(t, formats["messages"], true, "the place is free")
	require.Equal(t, http.StatusOK, response.StatusCode, text)
}
