package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/models/gateway"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

func say(text string) providertest.Script {
	return func(providertest.Request) providertest.Reply { return providertest.Say(text) }
}

// TestEveryFaultIsBooked: what the provider has counted is booked, at least as an estimate, and
// a call that costs nothing is not.
func TestEveryFaultIsBooked(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a long answer ", 100)
	usage := cost.Usage{InputTokens: 40, OutputTokens: 350}
	lie := cost.Usage{InputTokens: 1 << 60, OutputTokens: 1 << 60}
	for name, c := range map[string]struct {
		fault providertest.Fault
		// costs: the provider has begun to answer.
		costs, fails bool
	}{
		"429":               {fault: providertest.Fault{Status: 429, Type: "rate_limit_error", RetryAfter: "3600"}, fails: true},
		"529":               {fault: providertest.Fault{Status: 529, Type: "overloaded_error", RetryAfter: "3600"}, fails: true},
		"500":               {fault: providertest.Fault{Status: 500, RetryAfter: "3600"}, fails: true},
		"401":               {fault: providertest.Fault{Status: 401, Message: "wrong key " + theKey}, fails: true},
		"400":               {fault: providertest.Fault{Status: 400, Type: "invalid_request_error", Message: "no such field"}},
		"cut":               {fault: providertest.Fault{CutAfter: 900}, costs: true},
		"error in a stream": {fault: providertest.Fault{InStream: true, Type: "overloaded_error", Message: "busy"}, costs: true},
		"garbage":           {fault: providertest.Fault{Garbage: true}, fails: true},
		"no usage":          {fault: providertest.Fault{NoUsage: true}, costs: true},
		"an absurd usage":   {fault: providertest.Fault{Reported: &lie}, costs: true},
		"a flood":           {fault: providertest.Fault{Flood: 1 << 30}, costs: true, fails: true},
	} {
		for kind, f := range formats {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, func(providertest.Request) providertest.Reply {
					return providertest.Reply{Text: text, Usage: usage, Fault: c.fault}
				}, -1, func(o *gateway.Options, _ []gateway.Provider) { o.MaxAnswer = 4 << 20 })
				response, answer, err := b.ask(t.Context(), t, f, true, "hello")
				if response == nil {
					require.Error(t, err)
				}
				if c.fault.InStream {
					of, _ := f.wire(t)
					require.Equal(t, of.BreaksOff(), err != nil, "where programs do not see the error")
				}
				require.NotContains(t, answer+fmt.Sprint(response), theKey)
				require.Eventually(t, func() bool { _, _, open := b.account.Sum(); return open == 0 }, time.Minute, time.Millisecond)
				settled, unsettled, _ := b.account.Sum()
				booked := settled.Add(unsettled)
				require.Equal(t, c.costs, booked.Tokens() > 0, "%+v", booked)
				require.Less(t, booked.Tokens(), int64(cost.MaxReported))
				require.Equal(t, c.fails, len(b.failures()) > 0)
				if c.fault.Status != 0 && c.fault.Status != 401 {
					require.Equal(t, c.fault.Status, response.StatusCode, "the provider's own error")
				}
			})
		}
	}
}

// TestFaultsBeforeTheFirstByteAreWaitedOut: the program does not notice them.
func TestFaultsBeforeTheFirstByteAreWaitedOut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault providertest.Fault
		// unsure: nobody knows whether the call was paid for.
		unsure bool
	}{
		"429, seconds":      {fault: providertest.Fault{Status: 429, RetryAfter: "1"}},
		"429, milliseconds": {fault: providertest.Fault{Status: 429, Header: http.Header{"Retry-After-Ms": {"20"}}}},
		"429, a date": {fault: providertest.Fault{
			Status:     429,
			RetryAfter: time.Now().Add(time.Second).UTC().Format(http.TimeFormat),
		}},
		"529":              {fault: providertest.Fault{Status: 529}},
		"502":              {fault: providertest.Fault{Status: 502}},
		"no answer":        {fault: providertest.Fault{NoAnswer: true}, unsure: true},
		"reset":            {fault: providertest.Fault{Reset: providertest.ResetBefore}, unsure: true},
		"reset in headers": {fault: providertest.Fault{Reset: providertest.ResetHeaders}, unsure: true},
		"reset after them": {fault: providertest.Fault{Reset: providertest.ResetBody}, unsure: true},
	} {
		for kind, f := range formats {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				var n atomic.Int64
				b := newBench(t, func(providertest.Request) providertest.Reply {
					if n.Add(1) == 1 {
						return providertest.Failing(c.fault)
					}
					return providertest.Say("at last")
				}, -1, nil)
				response, text := b.asked(t, f, true, "hello")
				require.Equal(t, http.StatusOK, response.StatusCode, text)
				require.Contains(t, text, "at last")
				require.Greater(t, b.waits.Total(), 400*time.Millisecond, "waiting is no part of the attempt's time")
				settled, unsettled, open := b.account.Sum()
				whole, _ := b.provider.Total()
				require.Equal(t, whole, settled)
				require.Equal(t, c.unsure, unsettled.Tokens() > 0)
				require.Zero(t, open)
				require.Empty(t, b.failures())
			})
		}
	}
}

// TestAMissingKeyIsNotTheProvidersError: the failure names the provider and what to set, and nothing is
// sent or booked.
func TestAMissingKeyIsNotTheProvidersError(t *testing.T) {
	t.Parallel()
	for kind, f := range formats {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, say("never"), -1, func(_ *gateway.Options, all []gateway.Provider) {
				for i := range all {
					all[i].KeyError = errors.New("variable KEY is not set")
				}
			})
			response, text := b.asked(t, f, true, "hello")
			require.Equal(t, http.StatusUnauthorized, response.StatusCode, text)
			require.Len(t, b.failures(), 1)
			require.Equal(t, failures.Auth, b.failures()[0].Category)
			require.Equal(t, "provider "+f.provider+": variable KEY is not set", b.failures()[0].Message)
			require.Zero(t, b.provider.Count())
			settled, unsettled, open := b.account.Sum()
			require.Zero(t, settled.Add(unsettled))
			require.Zero(t, open)
		})
	}
}

func TestASpentBudgetIsTheProvidersError(t *testing.T) {
	t.Parallel()
	for kind, f := range formats {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			// The provider counts the prompt where it offers that. So much is left that the first call fits only with a shorter answer,
			// and the second not at all.
			b := newBench(t, func(r providertest.Request) providertest.Reply {
				return providertest.Reply{Text: "x", Usage: cost.Usage{InputTokens: 5, OutputTokens: r.MaxTokens}}
			}, 400, nil)
			response, _ := b.asked(t, f, true, "one")
			require.Equal(t, http.StatusOK, response.StatusCode)
			require.Positive(t, b.provider.Requests()[0].MaxTokens, "the answer is bounded by what is left")
			settled, _, _ := b.account.Sum()
			require.LessOrEqual(t, settled.Tokens(), int64(400))
			_, counts := f.wire(t)
			require.Equal(t, counts, len(b.provider.Others()) == 1, "%v", b.provider.Others())
			b.account.Locked(func() { b.account.Left = 0 })
			response, text := b.asked(t, f, true, "two")
			require.Contains(t, []int{400, 402, 429}, response.StatusCode)
			require.Equal(t, "false", response.Header.Get("X-Should-Retry"))
			require.Contains(t, text, "budget of the team is spent")
			require.Equal(t, failures.TokenBudget, b.failures()[0].Category)
			require.Equal(t, 1, b.provider.Count())
		})
	}
}

// TestACapHoldsInTheMiddleOfAnAnswer: a provider that writes more than it was asked for is stopped.
func TestACapHoldsInTheMiddleOfAnAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t, say(strings.Repeat("far too long ", 20_000)), 5000, nil)
	_, text := b.asked(t, formats["messages"], true, "hello")
	require.Contains(t, text[len(text)-500:], "billing_error")
	require.Less(t, len(text), 150_000)
	require.Eventually(t, func() bool { return len(b.failures()) == 1 }, time.Minute, time.Millisecond)
	require.Equal(t, failures.TokenBudget, b.failures()[0].Category)
	_, unsettled, open := b.account.Sum()
	require.Positive(t, unsettled.Tokens())
	require.Zero(t, open)
}

// TestAnAnswerIsPaidOnce: what was stored is given to a program that asks the same again.
func TestAnAnswerIsPaidOnce(t *testing.T) {
	t.Parallel()
	for kind, f := range formats {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, stream), func(t *testing.T) {
				t.Parallel()
				b := newBench(t, say("the answer"), -1, nil)
				_, first := b.asked(t, f, stream, "hello")
				response, again := b.asked(t, f, stream, "hello")
				require.Equal(t, "true", response.Header.Get(gateway.StoredHeader))
				require.Equal(t, 1, b.provider.Count())
				require.Contains(t, again, "the answer")
				require.Equal(t, strings.TrimRight(first, "\n"), strings.TrimRight(again, "\n"))
				b.asked(t, f, stream, "hello!")
				require.Equal(t, 2, b.provider.Count())
			})
		}
	}
	t.Run("not one with a secret", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, say("it is swordfish"), -1, nil)
		for range 2 {
			_, text := b.asked(t, formats["messages"], true, "hello")
			require.Contains(t, text, "swordfish")
		}
		require.Equal(t, 2, b.provider.Count())
	})
}

// TestTheProgramGoes: the provider is not asked any further, and what came is booked.
func TestTheProgramGoes(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(r providertest.Request) providertest.Reply {
		reply := providertest.Say(strings.Repeat("text ", 200))
		reply.Fault.Hold = func(sent int) <-chan struct{} {
			if sent < 5 {
				return nil
			}
			return make(chan struct{}) // until the client goes
		}
		return reply
	}, -1, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	response, err := begin(ctx, t, http.DefaultClient, b.address+"/anthropic/v1/messages", b.access.Token,
		`{"max_tokens":900,"stream":true}`)
	require.NoError(t, err)
	defer response.Body.Close()
	until(t, response, "text_delta")
	cancel()
	require.Eventually(t, func() bool { _, _, open := b.account.Sum(); return open == 0 }, time.Minute, time.Millisecond)
	_, unsettled, _ := b.account.Sum()
	_, broken := b.provider.Total()
	require.Equal(t, broken.InputTokens, unsettled.InputTokens, "the input was counted at the beginning")
	require.Positive(t, unsettled.OutputTokens)
	require.Empty(t, b.failures())
}

// TestAnAnswerThatNobodyWaitsForIsBookedInFull, as far as its bound permits: the provider may finish it.
func TestAnAnswerThatNobodyWaitsForIsBookedInFull(t *testing.T) {
	t.Parallel()
	asked, end := make(chan struct{}), make(chan struct{})
	b := newBench(t, func(providertest.Request) providertest.Reply {
		close(asked)
		<-end
		return providertest.Say("too late")
	}, -1, nil)
	defer close(end)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	_, _, err := post(ctx, t, b.address+"/anthropic/v1/messages", b.access.Token, `{"model":"m","max_tokens":9000,"messages":[]}`)
	require.ErrorIs(t, err, context.Canceled)
	require.Eventually(t, func() bool { _, _, open := b.account.Sum(); return open == 0 }, time.Minute, time.Millisecond)
	settled, unsettled, _ := b.account.Sum()
	require.Zero(t, settled)
	require.Equal(t, int64(9000), unsettled.OutputTokens)
}

// TestTheEndOfAWholeAnswerIsAwaited: the program has gone with the content, before the provider
// has said what it cost. The program gets the answer when it asks again.
func TestTheEndOfAWholeAnswerIsAwaited(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	usage := cost.Usage{InputTokens: 30, OutputTokens: 5}
	b := newBench(t, func(r providertest.Request) providertest.Reply {
		reply := providertest.Reply{Text: "hello", Usage: usage}
		reply.Fault.Hold = func(sent int) <-chan struct{} {
			if sent == 3 { // the usage follows
				return end
			}
			return nil
		}
		return reply
	}, -1, nil)
	var program net.Conn
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (_ net.Conn,
		err error,
	) {
		program, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return program, err
	}}}
	response, err := begin(t.Context(), t, client, b.address+"/openai/v1/chat/completions", b.access.Token,
		`{"model":"m","max_tokens":9,"stream":true}`)
	require.NoError(t, err)
	defer response.Body.Close()
	until(t, response, `"finish_reason":"stop"`)
	require.NoError(t, program.(*net.TCPConn).SetLinger(0)) // then the gateway cannot write any more when Close returns
	require.NoError(t, program.Close())
	for range 5 { // meanwhile the gateway notices, which waits 5 seconds for the end
		posted(t, b.address+"/anthropic/v1/messages/count_tokens", b.access.Token, "{}")
	}
	close(end)
	require.Eventually(t, func() bool { _, _, open := b.account.Sum(); return open == 0 }, time.Minute, time.Millisecond)
	settled, unsettled, _ := b.account.Sum()
	require.Equal(t, usage, settled)
	require.Zero(t, unsettled)
	require.Eventually(t, func() (lost bool) { b.account.Locked(func() { lost = b.account.Lost == 1 }); return lost }, time.Minute,
		time.Millisecond)
}

// TestAnAnswerIsBookedBeforeItsEndIsPassed: a program never acts on an answer that would be paid for
// again after a crash.
func TestAnAnswerIsBookedBeforeItsEndIsPassed(t *testing.T) {
	t.Parallel()
	for kind, f := range formats {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, stream), func(t *testing.T) {
				t.Parallel()
				b := newBench(t, say("hello"), -1, nil)
				var all atomic.Bool
				early := false
				b.account.Settling = func() {
					// While this is asked and answered, what was written before would have arrived.
					for range 20 {
						_, _, _ = post(context.WithoutCancel(t.Context()), t, b.provider.URL()+"/v1/messages/count_tokens", "", "{}")
					}
					early = all.Load()
				}
				base, err := b.access.URL(b.address, f.provider)
				require.NoError(t, err)
				path := f.path
				if stream {
					path = f.streamPath
				}
				response, err := begin(t.Context(), t, http.DefaultClient, base+path, b.access.Token, fmt.Sprintf(f.body, stream, "hello"))
				require.NoError(t, err)
				defer response.Body.Close()
				text := ""
				for err == nil {
					part, n := make([]byte, 4096), 0
					n, err = response.Body.Read(part)
					text += string(part[:n])
					all.Store(strings.Contains(text, f.end) || !stream && strings.HasSuffix(text, "}"))
				}
				require.True(t, all.Load())
				require.False(t, early)
			})
		}
	}
}

// TestAnAnswerThatCannotBeBookedIsNotUsed: its end does not pass, and the attempt ends.
func TestAnAnswerThatCannotBeBookedIsNotUsed(t *testing.T) {
	t.Parallel()
	for kind, f := range formats {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, say("hello"), -1, nil)
			b.account.Broke = errors.New("the store is away")
			_, _, err := b.ask(t.Context(), t, f, true, "hello")
			require.Error(t, err)
			require.Eventually(t, func() bool { return len(b.failures()) == 1 }, time.Minute, time.Millisecond)
			require.Equal(t, failures.ResourceError, b.failures()[0].Category)
		})
	}
}
