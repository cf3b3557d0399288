package llm_test

import (
	"fmt"
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

// TestGrantsCutAnswers has what is left of a budget bound the answers.
func TestGrantsCutAnswers(t *testing.T) {
	t.Parallel()
	each(t, plays(use("list", args{}), finish()), nil, func(t *testing.T, b *bench, s *providertest.Server) {
		b.calls.Budget = func(p session.CallPlan) (cost.Amount, error) {
			if len(b.calls.Plans) == 1 {
				return cost.Amount{Tokens: p.Want.Tokens - 5000}, nil
			}
			return p.Least, nil
		}
		b.done()
		requests := s.Requests()
		require.GreaterOrEqual(t, requests[0].MaxTokens, int64(8192-5000), "a prompt has fewer tokens than bytes")
		require.Less(t, requests[0].MaxTokens, int64(8192))
		require.Equal(t, int64(16), requests[1].MaxTokens)
		for i, p := range b.calls.Plans {
			used := b.calls.Each[i]
			require.LessOrEqual(t, used.Tokens(), p.Want.Tokens, "what was wanted covers it")
			require.Less(t, p.Least.Tokens, p.Estimate.Tokens())
			require.Equal(t, "writer", p.Agent)
			require.Equal(t, "m", p.Model)
			require.True(t, p.Request.Valid())
		}
		// The second call knows what the first has counted.
		first, second := b.calls.Each[0], b.calls.Plans[1]
		require.Less(t, second.Want.Tokens, first.Tokens()+1000+8192)
		require.Greater(t, second.Least.Tokens, first.Tokens())
	})
}

// TestEstimatesKeepToTheGrant: a call that brings nothing is not estimated at more than it
// could have cost, or the budget would be passed.
func TestEstimatesKeepToTheGrant(t *testing.T) {
	t.Parallel()
	stalled := finish()
	stalled.Fault.Stall = time.Hour
	b := newBench(t, "openai", providertest.New(t, plays(stalled)).URL(), nil)
	b.job.Timeout = textfmt.Duration(2 * time.Second)
	b.calls.Budget = func(p session.CallPlan) (cost.Amount, error) { return p.Least, nil }
	_, err := b.run()
	require.Equal(t, failures.Timeout, failed(t, err).Category)
	require.Len(t, b.calls.Ends, 1)
	require.Positive(t, b.calls.Ends[0].Used.Add(b.calls.Ends[0].Estimate).Tokens())
	require.LessOrEqual(t, b.calls.Ends[0].Used.Add(b.calls.Ends[0].Estimate).Tokens(), b.calls.Grants[0].Tokens)
}

// TestSpentBudgets end the attempt before the call.
func TestSpentBudgets(t *testing.T) {
	t.Parallel()
	each(t, plays(use("list", args{}), finish()), nil, func(t *testing.T, b *bench, s *providertest.Server) {
		b.calls.Budget = func(p session.CallPlan) (cost.Amount, error) {
			if len(b.calls.Plans) == 2 {
				return cost.Amount{}, failures.Failf(failures.TokenBudget, "the session's budget is spent")
			}
			return p.Want, nil
		}
		out, err := b.run()
		f := failed(t, err)
		require.Equal(t, failures.TokenBudget, f.Category)
		require.Contains(t, f.Message, "budget is spent")
		require.Equal(t, 1, s.Count())
		require.Equal(t, b.booked(), out.Usage)
	})
}

// TestOverspending stops a call that is under way, and uses an answer that is
// whole.
func TestOverspending(t *testing.T) {
	t.Parallel()
	long := providertest.Say(strings.Repeat("a very long story ", 2000))
	each(t, plays(long), nil, func(t *testing.T, b *bench, s *providertest.Server) {
		b.calls.Overspent = failures.Failf(failures.TokenBudget, "more than was set aside")
		_, err := b.run()
		require.Equal(t, failures.TokenBudget, failed(t, err).Category)
		require.Len(t, b.calls.Ends, 1)
		require.Positive(t, b.calls.Ends[0].Used.Add(b.calls.Ends[0].Estimate).InputTokens)
		require.Equal(t, 1, s.Count())
	})
	server := providertest.New(t, plays(finish()))
	b := newBench(t, "openai", server.URL(), nil) // which counts at the end only
	b.calls.Overspent = failures.Failf(failures.TokenBudget, "more than was set aside")
	b.done()
	require.Positive(t, b.booked().Tokens())
}

// TestRoomIsMade takes old results out of a conversation that nears the model's
// window, the same ones when it is replayed.
func TestRoomIsMade(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	var replies []providertest.Reply
	for i := range 12 {
		name := fmt.Sprintf("f%02d", i)
		files[name] = strings.Repeat(name+" is a line of text\n", 1000+10*i)
		replies = append(replies, use("read", args{"path": name}))
	}
	each(t, plays(append(replies, finish())...), files, func(t *testing.T, b *bench, s *providertest.Server) {
		b.agent.ContextTokens, b.agent.MaxOutputTokens = 40_000, 4_000
		b.done()
		left := 0
		for _, r := range s.Requests() {
			require.Less(t, len(r.Body)/4, 40_000)
			left += strings.Count(string(r.Body), "bytes omitted to save space")
		}
		require.Positive(t, left)
		require.NotContains(t, s.Requests()[12].Last().Results[0].Text, "left out", "the newest stays")
		calls := s.Count()
		b.fill(files)
		b.done()
		require.Equal(t, calls, s.Count(), "replayed without a call")
	})
}

// TestOverflowIsShrunk makes room when the provider says that there is none, or that a request is above a limit that no wait
// changes. If nothing can be left out, nobody waits.
func TestOverflowIsShrunk(t *testing.T) {
	t.Parallel()
	files := map[string]string{"long": strings.Repeat("a line of text\n", 2500), "short": "x"}
	inner := plays(use("read", args{"path": "long"}), use("read", args{"path": "short"}), finish())
	for category, refusal := range map[failures.Category]providertest.Reply{
		failures.ContextOverflow: providertest.ContextOverflow(),
		failures.RateLimited: providertest.Failing(providertest.Fault{
			Status: 429, Type: "tokens", Code: "rate_limit_exceeded",
			Message: "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 31538. The " +
				"input or output tokens must be reduced in order to run successfully.",
		}),
	} {
		script := func(r providertest.Request) providertest.Reply {
			if len(r.Body) > 30_000 && r.Turn() == 3 {
				return refusal
			}
			return inner(r)
		}
		each(t, script, files, func(t *testing.T, b *bench, s *providertest.Server) {
			for range 2 { // not even the refusal is asked for again
				b.fill(files)
				b.done()
				require.Equal(t, 4, s.Count())
			}
			require.Contains(t, string(s.Requests()[3].Body), "bytes omitted to save space")
		})
		each(t, plays(refusal), files, func(t *testing.T, b *bench, s *providertest.Server) {
			_, err := b.run()
			require.Equal(t, category, failed(t, err).Category)
			require.Equal(t, category == failures.RateLimited, failed(t, err).Final)
			require.Equal(t, 1, s.Count())
		})
	}
}
