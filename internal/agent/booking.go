package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/agent/preset"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
)

// attemptTurn is the turn under which an agent that is paid by the attempt books
// it all.
const attemptTurn = 0

// booked runs an attempt of an agent that is paid by the attempt, and books what
// it cost: what it may cost is set aside before the program starts. An attempt
// that cannot be paid for is not started. One that was cut off, and of which
// nobody knows what it cost, stays unsettled with an estimate.
func (s *Set) booked(ctx context.Context, d Definition, job session.Job) (session.Outcome, error) {
	aside := cost.Amount(d.Reserve)
	estimate := anyhow(aside)
	if aside == (cost.Amount{}) {
		estimate = d.unreported(unknownTime)
	}
	var call *programCall
	if d.Preset != "" {
		call = s.beginCall(d, job)
		estimate = d.priced(call.begin.Opening)
	}
	if job.Calls == nil {
		got, err := s.attempt(ctx, d, job, call, nil)
		got.out.Usage = d.priced(got.out.Usage)
		return got.out, err
	}
	paid, err := job.Calls.Begin(ctx, session.CallPlan{
		Turn: attemptTurn, Agent: job.Agent, Model: d.Model, Want: aside, Least: aside, Estimate: estimate,
	})
	if err != nil {
		return session.Outcome{}, err
	}
	began := s.now()
	if call != nil {
		call.begun(job.Home, paid)
	}
	got, err := s.attempt(ctx, d, job, call, nil)
	got.out.Usage = d.priced(got.out.Usage)
	end := context.WithoutCancel(ctx) // what is paid for is booked whatever happens
	var booking error
	switch {
	case !got.known:
		if got.estimate == (cost.Usage{}) && paid.Granted() != (cost.Amount{}) {
			got.estimate = atMost(d.unreported(s.now().Sub(began)), paid.Granted())
		}
		booking = paid.Unsettle(end, got.out.Usage, d.priced(got.estimate))
	case err != nil && got.out.Usage == cost.Usage{}: // which is not what the next one costs
		booking = paid.Abandon(end, cost.Usage{})
	default:
		booking = paid.Settle(end, nil, got.out.Usage)
	}
	if booking != nil {
		err = errors.Join(err, booking)
	}
	return got.out, err
}

// anyhow is an amount as a usage: nobody knows how it would divide up.
func anyhow(a cost.Amount) cost.Usage { return cost.Usage{OutputTokens: a.Tokens, CostUSD: a.USD} }

// What a program that says nothing of its usage counts for until a person settles it:
// a prompt, and what an agent reads and writes in a second of work.
const (
	unreportedPrompt = 4000
	unreportedRead   = 500
	unreportedWrite  = 50
	// unknownTime stands for the time that an attempt has worked whose worker was
	// lost.
	unknownTime = time.Minute
)

// usualPrices are used in such estimates for an agent that has no prices.
var usualPrices = cost.Prices{Input: 3_000_000_000, Output: 15_000_000_000}

// unreported estimates what a program has used in a time.
func (d Definition) unreported(worked time.Duration) cost.Usage {
	seconds := int64(worked / time.Second)
	u := d.priced(cost.Usage{InputTokens: unreportedPrompt + unreportedRead*seconds, OutputTokens: unreportedWrite * (seconds + 1)})
	if d.Prices == nil {
		u.CostUSD = usualPrices.Cost(u, "")
	}
	return u
}

// atMost cuts an estimate to what was set aside. Money is estimated only where it is
// limited; so many tokens are worth knowing in any case.
func atMost(u cost.Usage, granted cost.Amount) cost.Usage {
	if granted.Tokens > 0 && u.Tokens() > granted.Tokens {
		u.OutputTokens = min(u.OutputTokens, granted.Tokens)
		u.InputTokens = granted.Tokens - u.OutputTokens
	}
	u.CostUSD = min(u.CostUSD, granted.USD)
	return u
}

// Unpriced reports whether nobody can say what an agent's tokens cost: neither its
// provider's prices nor its own nor, as other programs may, the agent itself.
func (c Config) Unpriced(agent string) bool {
	d := c.Agents[agent]
	if names := d.providers(); len(names) > 0 {
		return slices.ContainsFunc(names, func(name string) bool { return c.Providers[name].Models == nil })
	}
	return d.Prices == nil && (d.Preset == preset.Codex || d.Preset == preset.Gemini)
}

// priced is a usage with its cost: what the agent itself said of it, or else
// what it costs at the definition's prices.
func (d Definition) priced(u cost.Usage) cost.Usage {
	if u.CostUSD == 0 && d.Prices != nil {
		u.CostUSD = d.Prices.Cost(u, "")
	}
	return u
}
