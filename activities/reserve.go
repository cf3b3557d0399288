package activities

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// The rhythm of waiting for a budget that calls under way may free.
const (
	budgetWait    = 50 * time.Millisecond
	budgetWaitMax = time.Second
)

// reservations are what is set aside in the session's ledger for an assignment's calls under
// way. Whoever changes them holds the journal's writing: the ledger's row then has the
// calls that the journal has.
type reservations struct {
	ledgers Ledgers
	clock   Clock
	key     session.Key
	id      spec.AssignmentID
	team    spec.Team
	// retryStore tries something with the store until the store can be used.
	retryStore func(ctx context.Context, try func() error) error
	observer   *callObserver

	mu sync.Mutex
	// aside is what is set aside for the calls under way, by number.
	aside map[int64]cost.Amount
	// refusal is the budget that could not pay; zero: all could.
	refusal budget.Verdict
}

// errWaits leaves a ledger as it is in which a call has found no room.
var errWaits = errors.New("the call has to wait")

// ask lets the ledger decide on the call whose number is to be seq. Where the cost of a call
// is not stated, it is estimated from what calls of the agent have cost before.
func (r *reservations) ask(ctx context.Context, seq int64, plan session.CallPlan) (verdict budget.Verdict, as session.CallPlan, err error) {
	err = r.retryStore(ctx, func() error {
		err := r.ledgers.UpdateLedger(r.key, func(l *budget.Ledger) error {
			as = guessed(l, plan)
			r.limit(l)
			_, asked := l.Row(r.id).Reserved[seq]
			verdict = l.Reserve(r.id, seq, as.Want, as.Least)
			if verdict.Wait && !asked {
				return errWaits
			}
			return nil
		})
		if errors.Is(err, errWaits) {
			return nil
		}
		return err
	})
	if err == nil && verdict.Refused != "" {
		r.refused(verdict)
	}
	return verdict, as, err
}

// guessed is a plan with an estimate where the cost of an attempt is not stated:
// of its tokens, its money, or both.
func guessed(l *budget.Ledger, plan session.CallPlan) session.CallPlan {
	if plan.Turn != 0 && plan.Want != (cost.Amount{}) { // a turn's cost is known
		return plan
	}
	want, least := l.Guess(plan.Agent)
	known := want == least
	if plan.Want.Tokens == 0 {
		plan.Want.Tokens, plan.Least.Tokens = want.Tokens, least.Tokens
		if known {
			plan.Estimate = cost.Usage{OutputTokens: want.Tokens, CostUSD: plan.Estimate.CostUSD}
		}
	}
	if plan.Want.USD == 0 {
		plan.Want.USD, plan.Least.USD = want.USD, least.USD
		if known {
			plan.Estimate.CostUSD = want.USD
		}
	}
	return plan
}

// within cuts an estimate to what is set aside for the call, so that no cap is passed
// by it. The answer is cut first: what the prompt has cost is the surer part.
func within(estimate cost.Usage, granted cost.Amount) cost.Usage {
	for _, part := range []*int64{&estimate.OutputTokens, &estimate.InputTokens, &estimate.CacheWriteTokens, &estimate.CacheReadTokens} {
		over := estimate.Tokens() - granted.Tokens
		*part -= max(0, min(*part, over))
	}
	estimate.ReasoningTokens = min(estimate.ReasoningTokens, estimate.OutputTokens)
	estimate.CostUSD = min(estimate.CostUSD, granted.USD)
	return estimate
}

// set notes what is set aside for a call; release notes that the call has ended.
func (r *reservations) set(call int64, amount cost.Amount) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.aside == nil {
		r.aside = map[int64]cost.Amount{}
	}
	r.aside[call] = amount
}

func (r *reservations) release(call int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.aside, call)
}

func (r *reservations) of(call int64) cost.Amount {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.aside[call]
}

// extend sets more aside for a call under way that has used so much: as much as it has used,
// so that this is seldom needed, and at least what is missing.
func (r *reservations) extend(call int64, used cost.Amount) budget.Verdict {
	more, least := shortfall(used, r.of(call))
	if least == (cost.Amount{}) {
		return budget.Verdict{}
	}
	var verdict budget.Verdict
	err := r.ledgers.UpdateLedger(r.key, func(l *budget.Ledger) error {
		verdict = l.Extend(r.id, call, more, least)
		return nil
	})
	switch {
	case err != nil: // the next report tries again: the call is under way, and its money is spent
		return budget.Verdict{}
	case verdict.Refused != "":
		r.refused(verdict)
		return verdict
	}
	r.set(call, r.of(call).Add(verdict.Granted))
	return verdict
}

// shortfall is what is missing at least, and how much more to set aside. A dimension in
// which nothing was set aside is not held to.
func shortfall(used, aside cost.Amount) (more, least cost.Amount) {
	if aside.Tokens > 0 && used.Tokens > aside.Tokens {
		more.Tokens, least.Tokens = used.Tokens, used.Tokens-aside.Tokens
	}
	if aside.USD > 0 && used.USD > aside.USD {
		more.USD, least.USD = used.USD, used.USD-aside.USD
	}
	return more, least
}

// update brings the assignment's row in the session's ledger up to date, and logs
// the warnings that this gives.
func (r *reservations) update(ctx context.Context, journal *journalWriter) error {
	r.mu.Lock()
	aside := maps.Clone(r.aside)
	r.mu.Unlock()
	var row budget.Row
	journal.read(func(j *budget.Journal) { row = j.Row(aside) })
	var warnings []budget.Warning
	var fractions map[string]float64
	err := r.retryStore(ctx, func() error {
		return r.ledgers.UpdateLedger(r.key, func(l *budget.Ledger) error {
			r.limit(l)
			warnings = l.SetRow(r.id, row, r.clock().UTC())
			fractions = l.Fractions(r.id)
			return nil
		})
	})
	r.observer.fractions(fractions)
	for _, w := range warnings {
		activity.GetLogger(ctx).Warn("a budget threshold is reached", "budget", w.Scope,
			"at", w.At, "tokens", w.Spent.Tokens, "usd", w.Spent.USD.String())
	}
	return err
}

// limit sets the limits of a ledger that was lost.
func (r *reservations) limit(l *budget.Ledger) {
	if l.Limits.IsZero() {
		l.Limit(r.team.Name, budget.LimitsOf(r.team))
	}
}

func (r *reservations) refused(by budget.Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusal = by
}

// lastRefusal is the budget that could not pay for a call of the attempt; zero: all could.
func (r *reservations) lastRefusal() budget.Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refusal
}

// dearest is the most that an attempt of an agent has cost.
func (r *reservations) dearest(ctx context.Context, agent string) (cost.Amount, error) {
	l, err := fromStore(ctx, r.retryStore, func() (budget.Ledger, error) { return r.ledgers.Ledger(r.key) })
	if err != nil {
		return cost.Amount{}, err
	}
	dearest, _ := l.Largest(agent)
	return dearest, nil
}
