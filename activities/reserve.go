package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failpoint"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// The rhythm of waiting for a budget that calls under way may free.
const (
	budgetWait    = 50 * time.Millisecond
	budgetWaitMax = time.Second
)

// Reserve reserves the possible cost of a call, once the session's budgets have room
// for it, and records durably that the call begins.
func (s *spender) Reserve(ctx context.Context, plan session.CallPlan) (cost.Amount, error) {
	s.endObserved(failures.Unknown) // the last call got no answer, and the attempt continued
	granted, err := s.reserve(ctx, plan)
	if err == nil {
		_, s.observed.ended = s.observer.CallBegun(ctx, s.observedCall(plan.Agent, plan.Model))
		s.observed.end = CallEnd{}
	}
	return granted, err
}

func (s *spender) reserve(ctx context.Context, plan session.CallPlan) (cost.Amount, error) {
	s.mu.Lock()
	s.current = callUnderWay{plan: plan, granted: plan.Want}
	s.mu.Unlock()
	seq := s.journal.Next() // nobody else appends
	free := plan.Want == cost.Amount{}
	if free && (!s.team.Capped() || s.free) {
		return plan.Want, s.noteFree(ctx, seq, plan)
	}
	for wait := budgetWait; ; wait = min(2*wait, budgetWaitMax) {
		verdict, plan, err := s.ask(ctx, seq, plan)
		switch {
		case err != nil:
			return cost.Amount{}, err
		case verdict.Refused != "":
			s.mu.Lock()
			s.refusal = verdict
			s.mu.Unlock()
			return cost.Amount{}, failures.Failf(failures.TokenBudget, "%s", verdict.Refused)
		case verdict.Wait:
			s.setProgress(fmt.Sprintf("waiting: the budget of %s is reserved for calls in flight", budget.Label(verdict.Scope)))
			if err := sleep(ctx, wait); err != nil {
				return cost.Amount{}, err
			}
			continue
		case verdict.Granted == cost.Amount{}:
			return verdict.Granted, nil // it has never cost anything
		}
		granted := verdict.Aside()
		plan.Estimate = within(plan.Estimate, granted)
		return granted, s.note(ctx, seq, plan, granted)
	}
}

// noteFree notes that an attempt begins for which nothing is set aside, if its
// program calls a model: that is paid, whatever becomes of the attempt. The estimate
// is the cost of the agent's most expensive attempt.
func (s *spender) noteFree(ctx context.Context, seq int64, plan session.CallPlan) error {
	if s.agents.Offered(plan.Agent).Conversation != spec.InDirectory {
		return nil
	}
	l, err := fromStore(ctx, s.retryStore, func() (budget.Ledger, error) { return s.ledgers.Ledger(s.key) })
	if err != nil {
		return err
	}
	if plan.Estimate == (cost.Usage{}) {
		dearest, _ := l.Largest(plan.Agent)
		plan.Estimate = cost.Usage{OutputTokens: dearest.Tokens, CostUSD: dearest.USD}
	}
	return s.note(ctx, seq, plan, cost.Amount{})
}

// note writes durably that the call begins, and what is set aside for it.
func (s *spender) note(ctx context.Context, seq int64, plan session.CallPlan, granted cost.Amount) error {
	s.mu.Lock()
	s.current.plan, s.current.granted = plan, granted
	s.mu.Unlock()
	key := s.attempt
	key.Turn = plan.Turn
	err := s.append(ctx, budget.Entry{
		Kind: budget.Begun, Key: &key, Run: s.run, Agent: plan.Agent, Model: plan.Model,
		Request: plan.Request, Estimate: &plan.Estimate, Granted: granted,
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.current.id = seq
	s.mu.Unlock()
	failpoint.Here("call begun")
	return nil
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

// errWaits leaves a ledger as it is in which a call has found no room.
var errWaits = errors.New("the call has to wait")

// ask lets the ledger decide. Where the cost of a call is not stated, it is
// estimated from what calls of the agent have cost before.
func (s *spender) ask(ctx context.Context, seq int64, plan session.CallPlan) (verdict budget.Verdict, as session.CallPlan, err error) {
	err = s.retryStore(ctx, func() error {
		err := s.ledgers.UpdateLedger(s.key, func(l *budget.Ledger) error {
			as = guessed(l, plan)
			s.limit(l)
			asked := len(l.Row(s.id).Reserved) > 0
			verdict = l.Reserve(s.id, seq, as.Want, as.Least)
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

// Report notes durably what an agent program has reported, and holds it to its
// budgets as Spending does. What the store cannot take now it takes with the next
// report, or at the end.
func (s *spender) Report(used, estimate cost.Usage) error {
	s.mu.Lock()
	current := s.current
	s.mu.Unlock()
	if current.id != 0 {
		estimate.CostUSD = cmp.Or(estimate.CostUSD, current.plan.Estimate.CostUSD)
		if err := s.noteReport(budget.Entry{Kind: budget.Reported, Call: current.id, Usage: &used, Estimate: &estimate}); err != nil {
			return err
		}
	}
	return s.Spending(used)
}

// noteReport appends a report to the journal, after one that could not be.
func (s *spender) noteReport(e budget.Entry) error {
	for _, next := range []*budget.Entry{s.report, &e} {
		if next == nil {
			continue
		}
		if next == &e {
			e.Seq, e.At = s.journal.Next(), s.clock().UTC()
		}
		s.report = next
		if s.ledgers.AppendEntry(s.key, s.id, *next) != nil {
			return nil
		}
		s.report = nil
		if err := s.apply(*next); err != nil {
			return err
		}
	}
	return nil
}

// Spending notes what the call under way has used so far. One that has used more
// than was set aside for it gets more, as long as there is some, and else is
// stopped.
func (s *spender) Spending(used cost.Usage) error {
	s.mu.Lock()
	s.current.used = used
	call, aside := s.current.id, s.current.granted
	s.mu.Unlock()
	more, least := shortfall(used.Amount(), aside)
	if call == 0 || least == (cost.Amount{}) {
		return nil
	}
	verdict, err := s.extend(call, more, least)
	if err != nil { // the next report tries again
		return nil //nolint:nilerr // the call is under way, and its money is spent
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if verdict.Refused == "" {
		s.current.granted = s.current.granted.Add(verdict.Granted)
		return nil
	}
	s.refusal = verdict
	return failures.Failf(failures.TokenBudget, "the attempt has used %d tokens and %s USD, more than its reservation of %d tokens and %s USD; %s",
		used.Tokens(), used.CostUSD, aside.Tokens, aside.USD, verdict.Refused)
}

// shortfall is what is missing at least, and how much more to set aside: as much as
// was used, so that this is seldom needed. A dimension in which nothing was set
// aside is not held to.
func shortfall(used, aside cost.Amount) (more, least cost.Amount) {
	if aside.Tokens > 0 && used.Tokens > aside.Tokens {
		more.Tokens, least.Tokens = used.Tokens, used.Tokens-aside.Tokens
	}
	if aside.USD > 0 && used.USD > aside.USD {
		more.USD, least.USD = used.USD, used.USD-aside.USD
	}
	return more, least
}

// extend sets more aside for the call under way.
func (s *spender) extend(call int64, more, least cost.Amount) (verdict budget.Verdict, err error) {
	err = s.ledgers.UpdateLedger(s.key, func(l *budget.Ledger) error {
		verdict = l.Extend(s.id, call, more, least)
		return nil
	})
	return verdict, err
}

// limit sets the limits of a ledger that was lost.
func (s *spender) limit(l *budget.Ledger) {
	if l.Limits.IsZero() {
		l.Limit(s.team.Name, budget.LimitsOf(s.team))
	}
}
