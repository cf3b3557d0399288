package activities

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failpoint"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// paidCall is a call in flight. Its methods may be called from any goroutine. One of the methods
// that end it must be called once.
type paidCall struct {
	spender *spender
	plan    session.CallPlan
	key     session.CallKey
	// id is its number in the journal; zero: nothing is noted.
	id       atomic.Int64
	granted  cost.Amount
	observed *observedCall
}

// ID is the call's number in the journal.
func (c *paidCall) ID() int64 { return c.id.Load() }

// Granted returns the reservation at the call's begin.
func (c *paidCall) Granted() cost.Amount { return c.granted }

// reserve reserves the cost of the call, and notes that it begins.
func (c *paidCall) reserve(ctx context.Context) error {
	s := c.spender
	waited := false
	defer func() {
		if waited {
			s.setProgress("")
		}
	}()
	for wait := budgetWait; ; wait = min(2*wait, budgetWaitMax) {
		verdict, err := c.tryReserve(ctx)
		switch {
		case err != nil:
			return err
		case verdict.Refused != "":
			return failures.Failf(failures.TokenBudget, "%s", verdict.Refused)
		case !verdict.Wait:
			return nil
		}
		if !waited && c.plan.Waits != nil {
			c.plan.Waits()
		}
		waited = true
		s.setProgress(fmt.Sprintf("waiting: the budget of %s is reserved for calls in flight", budget.Label(verdict.Scope)))
		if err := s.sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// sleep waits for others: not for a call of the attempt itself, which could prolong it.
func (s *spender) sleep(ctx context.Context, d time.Duration) error {
	s.mu.Lock()
	own := len(s.open) > 0
	s.mu.Unlock()
	if !own {
		defer s.waits.Begin()()
	}
	return sleep(ctx, d)
}

// tryReserve tries once to reserve in the ledger. It notes a granted call in the journal before
// another call can get the same number.
func (c *paidCall) tryReserve(ctx context.Context) (budget.Verdict, error) {
	s := c.spender
	if err := s.journal.writing.Acquire(ctx, 1); err != nil {
		return budget.Verdict{}, context.Cause(ctx)
	}
	defer s.journal.writing.Release(1)
	if free := c.plan.Want == (cost.Amount{}); free && (!s.budgets.team.Capped() || s.free) {
		return budget.Verdict{}, c.noteFree(ctx)
	}
	verdict, plan, err := s.budgets.request(ctx, s.journal.next(), c.plan)
	if err != nil || verdict.Refused != "" || verdict.Wait {
		return verdict, err
	}
	c.granted = verdict.Aside()
	if verdict.Granted == (cost.Amount{}) { // it has never cost anything
		return verdict, nil
	}
	c.plan = plan
	c.plan.Estimate = capEstimate(plan.Estimate, c.granted)
	return verdict, c.note(ctx)
}

// noteFree notes the begin of an attempt without a reservation, if its program calls a
// model: its calls cost money even if the attempt fails. The estimate is the cost of the
// agent's most expensive attempt.
func (c *paidCall) noteFree(ctx context.Context) error {
	s := c.spender
	if s.agents.Offered(c.plan.Agent).Conversation != spec.InDirectory {
		return nil
	}
	if c.plan.Estimate == (cost.Usage{}) {
		dearest, err := s.budgets.mostExpensive(ctx, c.plan.Agent)
		if err != nil {
			return err
		}
		c.plan.Estimate = cost.Usage{OutputTokens: dearest.Tokens, CostUSD: dearest.USD}
	}
	return c.note(ctx)
}

// note writes durably that the call begins, and its reservation.
func (c *paidCall) note(ctx context.Context) error {
	s := c.spender
	seq := s.journal.next()
	c.number()
	err := s.journal.append(ctx, budget.Entry{
		Kind: budget.Begun, Key: &c.key, Run: s.run, Agent: c.plan.Agent, Model: c.plan.Model,
		Request: c.plan.Request, Estimate: &c.plan.Estimate, Granted: c.granted,
	})
	if err != nil { // it may be there nevertheless
		s.journal.queue(budget.Entry{Kind: budget.Abandoned, Call: seq, Usage: &cost.Usage{}})
		return err
	}
	c.id.Store(seq)
	s.budgets.set(seq, c.granted)
	failpoint.Here("call begun")
	return nil
}

// number assigns the next turn to a call of any turn.
func (c *paidCall) number() {
	if c.key.Turn == session.AnyTurn {
		c.spender.journal.read(func(j *budget.Journal) { c.key.Turn = j.NextTurn(c.key) })
	}
}

// Settle stores an answer and books its cost.
func (c *paidCall) Settle(ctx context.Context, answer []byte, used cost.Usage) error {
	ctx = context.WithoutCancel(ctx)
	e := budget.Entry{Kind: budget.Settled, Call: c.ID(), Usage: &used}
	if answer != nil {
		var err error
		if e.Answer, err = c.spender.Put(ctx, answer); err != nil {
			return err
		}
	}
	failpoint.Here("answer stored, not booked")
	return c.end(ctx, e)
}

// Abandon books the cost of a call without an answer.
func (c *paidCall) Abandon(ctx context.Context, used cost.Usage) error {
	return c.end(context.WithoutCancel(ctx), budget.Entry{Kind: budget.Abandoned, Call: c.ID(), Usage: &used})
}

// Unsettle books the known cost of a call, and an estimate of the rest. Neither is limited to
// the reservation: the provider may have counted more.
func (c *paidCall) Unsettle(ctx context.Context, used, estimate cost.Usage) error {
	e := budget.Entry{Kind: budget.Unsettled, Call: c.ID(), Usage: &used}
	switch {
	case c.ID() == 0:
		used = used.Add(estimate)
	case estimate != (cost.Usage{}):
		e.Estimate = &estimate
	}
	return c.end(context.WithoutCancel(ctx), e)
}

// end books the call.
func (c *paidCall) end(ctx context.Context, e budget.Entry) error {
	s := c.spender
	if err := s.journal.writing.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.journal.writing.Release(1)
	if c.plan.Turn == 0 {
		s.round.callEnded()
	}
	err := c.book(ctx, e)
	s.observer.booked(c.observed, *e.Usage, e.Answer != "", e.Answer != "" && err == nil)
	return err
}

func (c *paidCall) book(ctx context.Context, e budget.Entry) error {
	s := c.spender
	if c.ID() == 0 {
		if e.Answer == "" && *e.Usage == (cost.Usage{}) {
			s.ended(c, false)
			return nil // nothing was noted, and nothing was spent
		}
		c.number() // the end is the only entry
		e.Kind, e.Key, e.Run, e.Agent, e.Model, e.Request = budget.Settled, &c.key, s.run, c.plan.Agent, c.plan.Model, c.plan.Request
		c.id.Store(s.journal.next())
	}
	if err := s.journal.append(ctx, e); err != nil {
		return err
	}
	failpoint.Here("call booked")
	s.ended(c, e.Answer != "")
	s.round.callBooked(ctx, e.Answer != "")
	return s.budgets.update(ctx, s.journal)
}

// ended removes a call from the calls in flight. answered: the running program has its answer.
func (s *spender) ended(c *paidCall, answered bool) {
	s.budgets.release(c.ID())
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	if answered && c.plan.Turn == session.AnyTurn {
		s.delivered[c.ID()] = true
	}
}

// Report notes durably the usage of the call so far, and checks its budgets as
// Spending does. If the store cannot be used now, the report is written with the
// next entry.
func (c *paidCall) Report(used, estimate cost.Usage) error {
	if c.ID() != 0 {
		estimate.CostUSD = cmp.Or(estimate.CostUSD, c.plan.Estimate.CostUSD)
		if err := c.spender.journal.report(budget.Entry{Kind: budget.Reported, Call: c.ID(), Usage: &used, Estimate: &estimate}); err != nil {
			return err
		}
	}
	return c.Spending(used)
}

// Answered notes the provider's answer.
func (c *paidCall) Answered(a session.CallAnswer) { c.spender.observer.answered(c.observed, a) }

// Spending notes the usage of the call so far. If it exceeds the reservation, the
// reservation is extended. An error means that the budget does not permit that: the
// call must stop.
func (c *paidCall) Spending(used cost.Usage) error {
	s := c.spender
	s.mu.Lock()
	if _, open := s.open[c]; open {
		s.open[c] = used
	}
	s.mu.Unlock()
	if c.ID() == 0 || !s.journal.writing.TryAcquire(1) {
		return nil // another call is being booked: the next report tries again
	}
	defer s.journal.writing.Release(1)
	aside := s.budgets.of(c.ID())
	verdict := s.budgets.extend(c.ID(), used.Amount())
	if verdict.Refused == "" {
		return nil
	}
	return failures.Failf(failures.TokenBudget, "the attempt has used %d tokens and %s USD, more than its reservation of %d tokens and %s USD; %s",
		used.Tokens(), used.CostUSD, aside.Tokens, aside.USD, verdict.Refused)
}
