package llm_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// TestFaults has every kind of fault end in its category, after one call and no more, and with its cost noted as far as it can
// be known. Package wire has the catalogue of what providers say.
func TestFaults(t *testing.T) {
	t.Parallel()
	const api = failures.APIError
	fault := func(f providertest.Fault) providertest.Reply {
		r := use("write", args{"path": "never", "content": strings.Repeat("a long text ", 100)})
		r.Fault = f
		return r
	}
	for name, c := range map[string]struct {
		reply    providertest.Reply
		category failures.Category
		message  string
		after    time.Duration
		final    bool
		billed   bool
	}{
		"rate limited": {
			reply:    providertest.RateLimited(today.Add(90 * time.Second).Format(http.TimeFormat)),
			category: failures.RateLimited, after: 90 * time.Second, message: "limits the request rate",
		},
		"unauthorized": {reply: providertest.Unauthorized(), category: failures.Auth, final: true, message: "key"},
		"overflow":     {reply: providertest.ContextOverflow(), category: failures.ContextOverflow, message: "nothing can be left out"},
		"no answer":    {reply: fault(providertest.Fault{NoAnswer: true}), category: api, billed: true},
		"garbage":      {reply: fault(providertest.Fault{Garbage: true}), category: api, message: "a proxy or another server"},
		"cut early":    {reply: fault(providertest.Fault{CutAfter: 300}), category: api, billed: true},
		"cut late":     {reply: fault(providertest.Fault{CutAfter: 2500}), category: api, billed: true},
		"an error inside": {
			reply:    fault(providertest.Fault{InStream: true, Type: "overloaded_error", Message: "Overloaded"}),
			category: api, message: "Overloaded", billed: true,
		},
		"slow":    {reply: fault(providertest.Fault{Delay: time.Hour}), category: api, message: "idle_timeout", billed: true},
		"stalled": {reply: fault(providertest.Fault{Stall: time.Hour}), category: api, message: "idle_timeout", billed: true},
		"refused": {reply: providertest.Reply{Text: "I cannot help.", Stop: providertest.Refused}, category: failures.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, plays(c.reply), nil, func(t *testing.T, b *bench, s *providertest.Server) {
				if c.message == "idle_timeout" {
					b.agent.IdleTimeout = 3 * time.Second
				}
				out, err := b.run()
				f := failed(t, err)
				require.Equal(t, c.category, f.Category, "%s", f.Message)
				require.Contains(t, f.Message, c.message)
				require.Contains(t, f.Message, "agent writer: ")
				require.Equal(t, c.after, f.RetryAfter.Std())
				require.Equal(t, !c.final, f.RetryRound())
				require.Equal(t, 1, s.Count(), "no retries of the library's own")
				require.Empty(t, b.files())
				require.Contains(t, string(out.Log), string(c.category))
				if c.category == failures.Refused || c.category == failures.ContextOverflow {
					require.Empty(t, b.calls.Ends)
					return
				}
				settled, unsettled, open := b.calls.Sum()
				require.Equal(t, c.billed, settled.Add(unsettled).Tokens() > 0)
				require.Zero(t, open)
				require.Zero(t, out.Usage.Tokens())
			})
		})
	}
}

// TestTimeouts tells the attempt's own end from that of its context.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	stalled := finish()
	stalled.Fault.Stall = time.Hour
	each(t, plays(stalled), nil, func(t *testing.T, b *bench, s *providertest.Server) {
		b.job.Timeout = textfmt.Duration(2 * time.Second)
		_, err := b.run()
		f := failed(t, err)
		require.Equal(t, failures.Timeout, f.Category)
		require.Contains(t, f.Message, "2s")
		require.Len(t, b.calls.Ends, 1)

		b.job.Timeout = 0
		errStopped := errors.New("the worker stops")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			for s.Count() < 2 && t.Context().Err() == nil { // the call is under way
				time.Sleep(time.Millisecond)
			}
			cancel(errStopped)
		}()
		_, err = b.agent.Run(ctx, b.job)
		require.ErrorIs(t, err, errStopped)
		require.Len(t, b.calls.Ends, 2)
	})
}

// TestWaitsAreNoPartOfTheTimeout: a budget that others have reserved, or a store that is away, fails no attempt.
func TestWaitsAreNoPartOfTheTimeout(t *testing.T) {
	t.Parallel()
	each(t, plays(finish()), nil, func(t *testing.T, b *bench, _ *providertest.Server) {
		b.job.Timeout, b.job.Waits = textfmt.Duration(time.Millisecond), session.NewPausedTime(time.Now)
		defer b.job.Waits.Begin()()
		b.done()
	})
}

// TestStoreErrors are not the agent's failures.
func TestStoreErrors(t *testing.T) {
	t.Parallel()
	each(t, plays(finish()), nil, func(t *testing.T, b *bench, s *providertest.Server) {
		b.calls.Budget = func(session.CallPlan) (cost.Amount, error) { return cost.Amount{}, errStore }
		_, err := b.run()
		require.ErrorIs(t, err, errStore)
		var f *failures.Failure
		require.NotErrorAs(t, err, &f)
		require.Zero(t, s.Count())
	})
}
