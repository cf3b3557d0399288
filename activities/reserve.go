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

// The waits for a budget that calls in flight may free.
const (
	budgetWait    = 50 * time.Millisecond
	budgetWaitMax = time.Second
)

// reservations are the reservations in the session's ledger for an assignment's calls in
// flight. A change requires the lock writing of the journal: then the ledger's row has the
// same calls as the journal.
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
	// reserved has the reservations of the calls in flight, by number.
	reserved map[int64]cost.Amount
	// refusal is the verdict of the budget that refused a call; zero: none did.
	refusal budget.Verdict
}

// errMustWait keeps UpdateLedger from writing a ledger that has not granted a call.
var errMustWait = errors.New("the call has to wait")

// request requests a reservation in the ledger for the call that gets the number seq. If the cost
// of the call is not stated, it is estimated from earlier calls of the agent.
func (r *reservations) request(ctx context.Context, seq int64, plan session.CallPlan) (verdict budget.Verdict, as session.CallPlan, err error) {
	err = r.retryStore(ctx, func() error {
		err := r.ledgers.UpdateLedger(r.key, func(l *budget.Ledger) error {
			as = withEstimate(l, plan)
			r.limit(l)
			_, asked := l.Row(r.id).Reserved[seq]
			verdict = l.Reserve(r.id, seq, as.Want, as.Least)
			if verdict.Wait && !asked {
				return errMustWait
			}
			return nil
		})
		if errors.Is(err, errMustWait) {
			return nil
		}
		return err
	})
	if err == nil && verdict.Refused != "" {
		r.refused(verdict)
	}
	return verdict, as, err
}

// withEstimate returns a plan with an estimate of an attempt's tokens or cost, or both, if
// they are not stated.
func withEstimate(l *budget.Ledger, plan session.CallPlan) session.CallPlan {
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

// capEstimate limits an estimate to the reservation of the call, so that it exceeds no
// cap. It reduces the answer first: the cost of the prompt is better known. Money is estimated only
// if it is limited; tokens are always estimated.
func capEstimate(estimate cost.Usage, granted cost.Amount) cost.Usage {
	if granted.Tokens == 0 {
		granted.Tokens = estimate.Tokens()
	}
	for _, part := range []*int64{&estimate.OutputTokens, &estimate.InputTokens, &estimate.CacheWriteTokens, &estimate.CacheReadTokens} {
		over := estimate.Tokens() - granted.Tokens
		*part -= max(0, min(*part, over))
	}
	estimate.ReasoningTokens = min(estimate.ReasoningTokens, estimate.OutputTokens)
	estimate.CostUSD = min(estimate.CostUSD, granted.USD)
	return estimate
}

// set sets the reservation of a call; release removes it after the call.
func (r *reservations) set(call int64, amount cost.Amount) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reserved == nil {
		r.reserved = map[int64]cost.Amount{}
	}
	r.reserved[call] = amount
}

func (r *reservations) release(call int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.reserved, call)
}

func (r *reservations) of(call int64) cost.Amount {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reserved[call]
}

// extend extends the reservation of a call in flight that has used more. It reserves as much as
// the call has used, so that this is seldom needed, and at least the shortfall.
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
	case err != nil: // the next report tries again: the call is in flight, and its cost cannot be avoided
		return budget.Verdict{}
	case verdict.Refused != "":
		r.refused(verdict)
		return verdict
	}
	r.set(call, r.of(call).Add(verdict.Granted))
	return verdict
}

// shortfall returns how much more to reserve, and the least that is needed. A dimension without a
// reservation is not limited.
func shortfall(used, aside cost.Amount) (more, least cost.Amount) {
	if aside.Tokens > 0 && used.Tokens > aside.Tokens {
		more.Tokens, least.Tokens = used.Tokens, used.Tokens-aside.Tokens
	}
	if aside.USD > 0 && used.USD > aside.USD {
		more.USD, least.USD = used.USD, used.USD-aside.USD
	}
	return more, least
}

// update updates the assignment's row in the session's ledger, and logs
// the warnings that this gives.
func (r *reservations) update(ctx context.Context, journal *journalWriter) error {
	r.mu.Lock()
	aside := maps.Clone(r.reserved)
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

// lastRefusal returns the verdict of the budget that refused a call of the attempt; zero: none did.
func (r *reservations) lastRefusal() budget.Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refusal
}

// mostExpensive returns the cost of the most expensive attempt of an agent.
func (r *reservations) mostExpensive(ctx context.Context, agent string) (cost.Amount, error) {
	l, err := fromStore(ctx, r.retryStore, func() (budget.Ledger, error) { return r.ledgers.Ledger(r.key) })
	if err != nil {
		return cost.Amount{}, err
	}
	dearest, _ := l.Largest(agent)
	return dearest, nil
}
