package agent

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/agent/preset"
)

// runPaidAsWhole runs an attempt of an agent that is paid by the attempt, and books its cost. The
// estimated cost is reserved before the program starts. If it cannot be reserved, the attempt is
// not started. An interrupted attempt with unknown cost stays unsettled with an estimate.
func (s *Set) runPaidAsWhole(ctx context.Context, d Definition, job session.Job) (session.Outcome, error) {
	aside := cost.Amount(d.Reserve)
	estimate := usageOfAmount(aside)
	if aside == (cost.Amount{}) {
		estimate = d.estimateUnreported(unknownTime)
	}
	var call *programCall
	if d.Preset != "" {
		call = s.beginCall(d, job)
		estimate = d.priced(call.begin.Opening)
	}
	paid, err := job.Calls.Begin(ctx, session.CallPlan{
		Whole: true, Agent: job.Agent, Model: d.Model, Want: aside, Least: aside, Estimate: estimate,
	})
	if err != nil {
		return session.Outcome{}, err
	}
	began := s.o.Now()
	if call != nil {
		call.begun(job.Home, paid)
	}
	got, err := s.attempt(ctx, d, job, call, nil)
	got.out.Usage = d.priced(got.out.Usage)
	if err == nil && got.known && job.Ended != nil {
		err = job.Ended(ctx, got.out)
	}
	if err != nil {
		paid.Answered(session.CallAnswer{Category: failures.CategoryOf(err)})
	}
	end := context.WithoutCancel(ctx) // book the cost in any case
	var booking error
	switch {
	case !got.known:
		if got.estimate == (cost.Usage{}) && paid.Granted() != (cost.Amount{}) {
			got.estimate = limitEstimate(d.estimateUnreported(s.o.Now().Sub(began)), paid.Granted())
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

// usageOfAmount converts an amount into a usage. Its division into kinds of tokens is arbitrary.
func usageOfAmount(a cost.Amount) cost.Usage {
	return cost.Usage{OutputTokens: a.Tokens, CostUSD: a.USD}
}

// The estimated usage of a program that reports none, until a person settles it: a prompt, and
// the tokens that an agent reads and writes in a second.
const (
	unreportedPrompt = 4000
	unreportedRead   = 500
	unreportedWrite  = 50
	// unknownTime is the assumed duration of an attempt whose worker was lost.
	unknownTime = time.Minute
)

// usualPrices are the assumed prices for an agent without prices.
var usualPrices = cost.Prices{Input: 3_000_000_000, Output: 15_000_000_000}

// estimateUnreported estimates the usage of a program that has worked for this time.
func (d Definition) estimateUnreported(worked time.Duration) cost.Usage {
	seconds := int64(worked / time.Second)
	u := d.priced(cost.Usage{InputTokens: unreportedPrompt + unreportedRead*seconds, OutputTokens: unreportedWrite * (seconds + 1)})
	if d.Prices == nil {
		u.CostUSD = usualPrices.Cost(u, "")
	}
	return u
}

// limitEstimate limits an estimate to the reserved amount. Money is estimated only if it is limited;
// tokens are always estimated.
func limitEstimate(u cost.Usage, granted cost.Amount) cost.Usage {
	if granted.Tokens > 0 && u.Tokens() > granted.Tokens {
		u.OutputTokens = min(u.OutputTokens, granted.Tokens)
		u.InputTokens = granted.Tokens - u.OutputTokens
	}
	u.CostUSD = min(u.CostUSD, granted.USD)
	return u
}

// Unpriced reports whether the cost of an agent's tokens is unknown: neither its provider nor its
// definition has prices, and its program does not report costs.
func (c Config) Unpriced(agent string) bool {
	d := c.Agents[agent]
	if names := d.providers(); len(names) > 0 {
		return slices.ContainsFunc(names, func(name string) bool { return c.Providers[name].Models == nil })
	}
	program := preset.For(d.Preset)
	return d.Prices == nil && program != nil && !program.StatesCost
}

// priced adds the cost to a usage: the cost that the agent has reported, or the cost at the
// definition's prices.
func (d Definition) priced(u cost.Usage) cost.Usage {
	if u.CostUSD == 0 && d.Prices != nil {
		u.CostUSD = d.Prices.Cost(u, "")
	}
	return u
}

// usageFile is the name of the file, beside an assignment's HOME, with the usage that was known
// when the last call of an agent program began.
const usageFile = "usage.json"

// callBegin is what was known when a call of an agent program began.
type callBegin struct {
	Preset string `json:"preset"`
	// Call is its id.
	Call string `json:"call"`
	// Before is the usage of earlier calls, from the files in HOME.
	Before cost.Usage `json:"before"`
	// Opening is the estimated cost of the first request.
	Opening cost.Usage `json:"opening"`
}

// The estimated tokens of the answer to a first request, and the assumed number of bytes in a
// token of the request.
const (
	openingAnswer = 1000
	bytesPerToken = 4
)

// programCall is one call of an agent program: an attempt with one run, or with two if the
// program did not find the conversation to continue.
type programCall struct {
	log   *preset.UsageLog
	begin callBegin
	// paid is the booked call; nil: calls are not booked.
	paid session.Call
	// spent is the usage of earlier runs of the call.
	spent cost.Usage
}

// beginCall reads the usage that is recorded in HOME before the call begins. Usage that is
// recorded later belongs to the call.
func (s *Set) beginCall(d Definition, job session.Job) *programCall {
	notes := preset.For(d.Preset).Usage
	c := &programCall{log: preset.NewUsageLog(job.Home, notes)}
	c.log.Update()
	brief, _ := json.Marshal(job.Brief) // plain data
	c.begin = callBegin{
		Preset: d.Preset, Before: c.log.Sum,
		Opening: cost.Usage{InputTokens: notes.Opening + int64(len(brief)/bytesPerToken), OutputTokens: openingAnswer},
	}
	if next := c.log.Next(); job.Continues && next.Tokens() > 0 {
		next.InputTokens += int64(len(brief) / bytesPerToken)
		c.begin.Opening = next
	}
	return c
}

// begun records what was known when the call began, under its id.
func (c *programCall) begun(home string, paid session.Call) {
	c.paid, c.begin.Call = paid, paid.ID()
	// If this fails, a worker that takes over after a crash knows only the reported usage.
	_ = writeNote(filepath.Join(filepath.Dir(home), usageFile), c.begin)
}

// noted returns the usage of the call so far, from the files.
func (c *programCall) noted() cost.Usage {
	return c.log.Sum.Minus(c.begin.Before).Max(cost.Usage{})
}

// estimate returns the cost of a request that may be in progress.
func (c *programCall) estimate() cost.Usage {
	if c.noted() == (cost.Usage{}) {
		return c.begin.Opening
	}
	return c.log.Next()
}

// Reported returns the usage that an agent program has recorded in an assignment's directory
// since this call began, and an estimate of the cost of a request that may have
// been in progress. The program must have ended. ok is false if nothing is known, because the
// last call that began here is another one.
func (s *Set) Reported(agent string, dir session.WorkDir, call string) (used, estimate cost.Usage, ok bool) {
	var c programCall
	if !readNote(filepath.Join(filepath.Dir(dir.Home), usageFile), &c.begin) || c.begin.Call != call {
		return used, estimate, false
	}
	dialect := preset.For(c.begin.Preset)
	if dialect == nil || c.begin.Before.Validate() != nil || c.begin.Opening.Validate() != nil {
		return used, estimate, false
	}
	c.log = preset.NewUsageLog(dir.Home, dialect.Usage)
	c.log.Update()
	used, estimate = c.noted(), c.estimate()
	if used.Validate() != nil || estimate.Validate() != nil {
		return cost.Usage{}, cost.Usage{}, false
	}
	d := s.config.Agents[agent]
	return d.priced(used), d.priced(estimate), true
}
