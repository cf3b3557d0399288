package activities

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/platform/failpoint"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// The times of calls.
const (
	// budgetWait and budgetWaitMax are the waits for a budget that calls in flight may free.
	budgetWait    = 50 * time.Millisecond
	budgetWaitMax = time.Second
	// progressLimit bounds a report of a call in flight: the next one has all that it has.
	progressLimit = 5 * time.Second
)

// reservedCall is a call in flight. Its methods may be called from any goroutine. One of the methods
// that end it must be called once.
type reservedCall struct {
	spender  *spender
	plan     session.CallPlan
	attempt  state.AttemptKey
	id       string
	granted  cost.Amount
	observed *observedCall

	mu sync.Mutex
	// held is its reservation, and estimated what stays unsettled of it if its worker is lost.
	held, estimated cost.Amount
	// differs is how the provider's figures differ from each other.
	differs string
}

// ID is the call's id.
func (c *reservedCall) ID() string { return c.id }

// Granted returns the reservation at the call's begin.
func (c *reservedCall) Granted() cost.Amount { return c.granted }

// reserve reserves the cost of the call, and notes that it begins.
func (c *reservedCall) reserve(ctx context.Context) error {
	s := c.spender
	waited := false
	defer func() {
		if waited {
			s.setProgress("")
		}
	}()
	for wait := budgetWait; ; wait = min(2*wait, budgetWaitMax) {
		verdict, err := c.begin(ctx)
		switch {
		case err != nil:
			return err
		case verdict.Refused == nil:
			c.granted = budget.Aside(verdict.Granted)
			c.held = c.granted
			failpoint.Here("call begun")
			return nil
		case !verdict.Wait:
			return failures.Failf(failures.TokenBudget, "%s", s.refuse(ctx, *verdict.Refused, verdict.Least))
		}
		if !waited && c.plan.Waits != nil {
			c.plan.Waits()
		}
		waited = true
		s.setProgress(fmt.Sprintf("waiting: the budget of %s is reserved for calls in flight", budget.Label(verdict.Refused.Scope())))
		if err := s.sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// begin records the call once, if its budgets permit it. If ctx ends before the outcome is known, the call is not made, and
// its row is ended.
func (c *reservedCall) begin(ctx context.Context) (verdict budget.Verdict, err error) {
	s := c.spender
	estimated := c.plan.Estimate.Amount()
	c.estimated = estimated
	call := state.NewCall{
		ID: c.id, CallKey: state.CallKey{AttemptKey: c.attempt, Call: state.NextCall}, Fence: s.fence,
		Team: s.team.Name, Agent: c.plan.Agent, Provider: c.plan.API, Model: c.plan.Model, Request: string(c.plan.Request),
		Want: c.plan.Want, Least: c.plan.Least, Free: s.free && c.plan.Want == (cost.Amount{}), Estimated: estimated,
	}
	if c.plan.Turn == 0 {
		call.Call = 0
	}
	err = s.retryState(ctx, func() (err error) {
		verdict, err = s.state.Begin(ctx, call)
		return err
	})
	if err != nil {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), progressLimit)
		defer cancel()
		_ = s.state.End(bounded, c.id, state.CallEnd{State: state.CallFailed}) // the next execution does it otherwise
	}
	return verdict, err
}

// Settle stores an answer and books its cost.
func (c *reservedCall) Settle(ctx context.Context, answer []byte, used cost.Usage) error {
	ctx = context.WithoutCancel(ctx)
	end := state.CallEnd{State: state.CallAnswered, Usage: used}
	if answer != nil {
		name, err := c.spender.Put(ctx, answer)
		if err != nil {
			return err
		}
		end.Answer = string(name)
	}
	failpoint.Here("answer stored, not booked")
	return c.end(ctx, end)
}

// Abandon books the cost of a call without an answer.
func (c *reservedCall) Abandon(ctx context.Context, used cost.Usage) error {
	return c.end(context.WithoutCancel(ctx), state.CallEnd{State: state.CallFailed, Usage: used})
}

// Unsettle books the known cost of a call, and an estimate of the rest. Neither is limited to
// the reservation: the provider may have counted more.
func (c *reservedCall) Unsettle(ctx context.Context, used, estimate cost.Usage) error {
	return c.end(context.WithoutCancel(ctx), state.CallEnd{State: state.CallUnsettled, Usage: used, Estimated: estimate.Amount()})
}

// end books the call.
func (c *reservedCall) end(ctx context.Context, end state.CallEnd) error {
	s := c.spender
	if c.plan.Turn == 0 {
		s.round.callEnded()
	}
	c.mu.Lock()
	end.Differs = c.differs
	c.mu.Unlock()
	err := s.retryState(ctx, func() error { return s.state.End(ctx, c.id, end) })
	if err == nil {
		failpoint.Here("call booked")
		s.callEnded(c, end)
		s.round.callBooked(ctx, end.Answer != "")
		err = s.warn(ctx)
	}
	s.observer.booked(c.observed, end.Usage, end.Answer != "", end.Answer != "" && err == nil)
	return err
}

// callEnded removes a call from the calls in flight. The running program has its answer.
func (s *spender) callEnded(c *reservedCall, end state.CallEnd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	s.add(c.attempt, end.Usage)
	if end.Answer != "" {
		s.received[c.id] = true
	}
}

// Report notes durably the usage of the call so far, and checks its budgets. If the state cannot be used now, the next
// report has it.
func (c *reservedCall) Report(used, estimate cost.Usage) error {
	rest := estimate.Amount()
	rest.USD = cmp.Or(rest.USD, c.plan.Estimate.CostUSD)
	return c.progress(used, state.Progress{Known: used, Wanted: rest, Estimated: rest})
}

// Answered notes the provider's answer.
func (c *reservedCall) Answered(a session.CallAnswer) {
	c.mu.Lock()
	c.differs = a.Differs
	c.mu.Unlock()
	c.spender.observer.answered(c.observed, a)
}

// Spending notes the usage of the call so far. If it exceeds the reservation, the
// reservation is extended. An error means that the budget does not permit that: the
// call must stop.
func (c *reservedCall) Spending(used cost.Usage) error {
	amount := used.Amount()
	c.mu.Lock()
	within := (c.held.Tokens == 0 || amount.Tokens <= c.held.Tokens) && (c.held.USD == 0 || amount.USD <= c.held.USD)
	estimated := cost.Amount{Tokens: max(c.estimated.Tokens, amount.Tokens), USD: max(c.estimated.USD, amount.USD)}
	c.mu.Unlock()
	if within {
		c.noteSpending(used)
		return nil
	}
	// Twice as much is reserved, so that this is seldom needed.
	return c.progress(used, state.Progress{Wanted: amount.Add(amount), Least: amount, Estimated: estimated})
}

func (c *reservedCall) noteSpending(used cost.Usage) {
	s := c.spender
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.open[c]; open {
		s.open[c] = used
	}
}

// progress reports the progress of the call to the state.
func (c *reservedCall) progress(used cost.Usage, p state.Progress) error {
	s := c.spender
	c.noteSpending(used)
	ctx, cancel := context.WithTimeout(context.Background(), progressLimit)
	defer cancel()
	held, refused, err := s.state.Report(ctx, c.id, p)
	if err != nil {
		return nil //nolint:nilerr // the call is in flight, and its cost cannot be avoided; the next report tries again
	}
	c.mu.Lock()
	before := c.held
	c.held = held
	c.mu.Unlock()
	if refused == nil {
		return nil
	}
	return failures.Failf(failures.TokenBudget, "the attempt has used %d tokens and %s USD, more than its reservation of %d tokens and %s USD; %s",
		used.Tokens(), used.CostUSD, before.Tokens, before.USD, s.refuse(ctx, *refused, used.Amount()))
}
