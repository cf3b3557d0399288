package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/failpoint"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// spender reserves and books the calls of an attempt. It implements [session.Calls] with the rows of the state.
type spender struct {
	round *round

	mu sync.Mutex
	// attempt is the running attempt; earlier are the attempts whose conversation it
	// continues, newest first.
	attempt state.AttemptKey
	earlier []state.AttemptKey
	// open are the calls in flight, with their usage so far.
	open map[*reservedCall]cost.Usage
	// received are the calls whose answers the running program has.
	received map[string]bool
	// total is the known cost of the assignment's ended calls, and ended that of each attempt.
	total cost.Usage
	ended map[state.AttemptKey]cost.Usage
	// refusal is the budget that has refused a call of the attempt; nil: none did.
	refusal *BudgetStop
}

// Stored looks for an answer among those of this attempt, and of the ones whose conversation it continues with.
func (s *spender) Stored(ctx context.Context, request spec.Digest) (*session.StoredTurn, error) {
	for {
		call, err := s.find(ctx, request)
		if call == nil || err != nil {
			return nil, err
		}
		stored := &session.StoredTurn{Call: call.ID, Usage: call.Usage}
		if stored.Answer, err = s.get(ctx, spec.Digest(call.Answer)); err != nil {
			activity.GetLogger(ctx).Warn("a stored answer is lost", "call", call.ID, "error", err)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			continue // a call of the same request may have been paid for again
		}
		if call.Tools != "" {
			if stored.Tools, err = s.get(ctx, spec.Digest(call.Tools)); err != nil {
				stored.Tools = nil
			}
		}
		s.round.exec.observer.CallReplayed(s.callInfo(session.CallPlan{Agent: s.round.agent}))
		return stored, nil
	}
}

// find finds an answer and marks it as received, so that a concurrent equal request does not get it, too.
func (s *spender) find(ctx context.Context, request spec.Digest) (found *state.Call, err error) {
	err = s.round.exec.retryStore(ctx, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		call, err := s.round.State.PaidAnswer(ctx, append([]state.AttemptKey{s.attempt}, s.earlier...),
			int64(s.round.rows.opened.Order.AnswersFrom), string(request), s.received)
		switch {
		case errors.Is(err, state.ErrNotFound):
			return nil
		case err != nil:
			return err
		}
		s.received[call.ID] = true
		found = &call
		return nil
	})
	return found, err
}

// Undelivered makes the answer of a call available again.
func (s *spender) Undelivered(call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.received, call)
}

// Begin waits until the session's budgets permit the possible cost of a call, reserves it,
// and records durably that the call begins.
func (s *spender) Begin(ctx context.Context, plan session.CallPlan) (session.Call, error) {
	s.mu.Lock()
	c := &reservedCall{spender: s, plan: plan, attempt: s.attempt, id: state.NewCallID()}
	s.mu.Unlock()
	if err := c.reserve(ctx); err != nil {
		return nil, err
	}
	_, c.ended = s.round.exec.observer.CallBegun(ctx, s.callInfo(plan))
	s.mu.Lock()
	s.open[c] = cost.Usage{}
	s.mu.Unlock()
	return c, nil
}

// callInfo describes a call to the observer.
func (s *spender) callInfo(plan session.CallPlan) CallInfo {
	return CallInfo{
		Team: s.round.session.team.Name, Session: s.round.session.key.Session, Agent: plan.Agent, API: plan.API,
		Model: cmp.Or(plan.Model, s.round.Agents.Offered(plan.Agent).Model), Server: plan.Server,
	}
}

// KeepTools stores the tool results of a call. It can be one of an earlier attempt, which
// ended before its tools had worked.
func (s *spender) KeepTools(ctx context.Context, call string, doc []byte) error {
	name, err := s.put(ctx, doc)
	if err != nil {
		return err
	}
	return s.round.exec.retryStore(ctx, func() error { return s.round.State.KeepTools(ctx, call, string(name)) })
}

// put stores a blob. It waits while the store cannot be used.
func (s *spender) put(ctx context.Context, data []byte) (spec.Digest, error) {
	return fromStore(ctx, s.round.exec.retryStore, func() (spec.Digest, error) { return s.round.Files.PutBlob(ctx, data) })
}

// get reads a blob.
func (s *spender) get(ctx context.Context, name spec.Digest) ([]byte, error) {
	return fromStore(ctx, s.round.exec.retryStore, func() ([]byte, error) { return s.round.Files.Blob(ctx, name) })
}

// sleep waits for others: not for a call of the attempt itself, which could prolong it.
func (s *spender) sleep(ctx context.Context, d time.Duration) error {
	s.mu.Lock()
	own := len(s.open) > 0
	s.mu.Unlock()
	if !own {
		defer s.round.exec.waits.Begin()()
	}
	return sleep(ctx, d)
}

// refuse records the budget that refuses a call, and returns the message.
func (s *spender) refuse(ctx context.Context, b budget.Budget, least cost.Amount) string {
	stop := BudgetStop{Scope: b.Scope(), Date: b.Day, Least: least}
	var calls budget.UnsettledCalls
	if b.Unsettled != (cost.Amount{}) {
		calls, _ = s.round.State.UnsettledOf(ctx, s.round.rows.of.Key, b) // else the text does not name them
	}
	stop.Unsettled = calls.Calls > 0
	stop.Message = budget.Refusal(b, least, calls)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = &stop
	return stop.Message
}

// warn logs the thresholds of budgets that are reached now.
func (s *spender) warn(ctx context.Context) error {
	if !s.round.session.team.Capped() {
		return nil
	}
	return s.round.exec.retryStore(ctx, func() error {
		due, budgets, err := s.round.State.Warn(ctx, s.round.rows.of, s.round.session.team.Name, s.round.session.team.Budget.WarnAt)
		if err != nil {
			return err
		}
		for _, b := range budgets {
			s.round.exec.observer.BudgetFraction(s.round.session.team.Name, string(b.Kind), b.Fraction())
		}
		for _, w := range due {
			activity.GetLogger(ctx).Warn("a budget threshold is reached", "budget", w.Scope,
				"at", w.At, "tokens", w.Spent.Tokens, "usd", w.Spent.USD.String())
		}
		return nil
	})
}

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
	spender *spender
	plan    session.CallPlan
	attempt state.AttemptKey
	id      string
	granted cost.Amount
	// ended reports its end to the observer.
	ended func(CallOutcome)

	mu sync.Mutex
	// held is its reservation, and estimated what stays unsettled of it if its worker is lost.
	held, estimated cost.Amount
	// said is what the provider has reported.
	said session.CallAnswer
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
			s.round.exec.setProgress("")
		}
	}()
	for wait := budgetWait; ; wait = min(2*wait, budgetWaitMax) {
		verdict, err := c.tryReserve(ctx)
		switch {
		case err != nil:
			return err
		case verdict.Refused == nil:
			c.granted = budget.Reservation(verdict.Granted)
			c.held = c.granted
			return nil
		case !verdict.Wait:
			return failures.Failf(failures.TokenBudget, "%s", s.refuse(ctx, *verdict.Refused, verdict.Least))
		}
		progress := fmt.Sprintf("waiting: the budget of %s is reserved for calls in flight", budget.Label(verdict.Refused.Scope()))
		if !waited {
			activity.GetLogger(ctx).Info(progress)
			if c.plan.OnWait != nil {
				c.plan.OnWait()
			}
		}
		waited = true
		s.round.exec.setProgress(progress)
		if err := s.sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// tryReserve records the call once, if its budgets permit it. If ctx ends before the outcome is known, the call is not made, and
// its row is ended.
func (c *reservedCall) tryReserve(ctx context.Context) (verdict budget.Verdict, err error) {
	s := c.spender
	estimated := c.plan.Estimate.Amount()
	c.estimated = estimated
	call := state.NewCall{
		ID: c.id, CallKey: state.CallKey{AttemptKey: c.attempt, Call: state.NextCall}, Fence: s.round.rows.opened.Fence,
		Team: s.round.session.team.Name, Agent: c.plan.Agent, Provider: c.plan.API, Model: c.plan.Model,
		Request: string(c.plan.Request), Want: c.plan.Want, Least: c.plan.Least,
		Free: s.round.in.Free && c.plan.Want == (cost.Amount{}), Estimated: estimated,
	}
	if c.plan.Whole {
		call.Call = 0
	}
	err = s.round.exec.retryStore(ctx, func() (err error) {
		verdict, err = s.round.State.Begin(ctx, call)
		return err
	})
	if err != nil {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), progressLimit)
		defer cancel()
		_ = s.round.State.End(bounded, c.id, state.CallEnd{State: state.CallFailed}) // the next execution does it otherwise
	}
	return verdict, err
}

// Settle stores an answer and books its cost.
func (c *reservedCall) Settle(ctx context.Context, answer []byte, used cost.Usage) error {
	ctx = context.WithoutCancel(ctx)
	end := state.CallEnd{State: state.CallAnswered, Usage: used}
	if answer != nil {
		name, err := c.spender.put(ctx, answer)
		if err != nil {
			c.ended(CallOutcome{Category: failures.ResourceError})
			return err
		}
		end.Answer = string(name)
	}
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
	if c.plan.Whole {
		s.round.exec.dir.idle()
	}
	c.mu.Lock()
	said := c.said
	c.mu.Unlock()
	end.Differs = said.Differs
	err := s.round.exec.retryStore(ctx, func() error { return s.round.State.End(ctx, c.id, end) })
	if err == nil {
		failpoint.Here("call booked")
		s.callEnded(c, end)
		if end.Answer != "" { // that is progress
			s.round.endOutage(ctx, true)
		}
		err = s.warn(ctx)
	}
	outcome := CallOutcome{Category: said.Category, Usage: end.Usage, Stored: end.Answer != "" && err == nil, Answer: said}
	if end.State == state.CallFailed {
		outcome.Category = cmp.Or(said.Category, failures.Cancelled) // of what was not called, nothing is said
	}
	c.ended(outcome)
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
	defer c.mu.Unlock()
	c.said = a
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
	held, refused, err := s.round.State.Report(ctx, c.id, p)
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
	return failures.Failf(failures.TokenBudget, "the attempt has used %d tokens and %s USD, more than its reservation of %d "+
		"tokens and %s USD; %s",
		used.Tokens(), used.CostUSD, before.Tokens, before.USD, s.refuse(ctx, *refused, used.Amount()))
}

// load reads the assignment's calls. A call that an execution before this one did not end is unsettled from now on: its money
// may be spent.
func (s *spender) load(ctx context.Context, lost lostCalls) (calls []state.Call, err error) {
	err = s.round.exec.retryStore(ctx, func() error {
		if err := lost.endCalls(ctx, s.round.rows.of); err != nil {
			return err
		}
		calls, err = s.round.State.Calls(ctx, s.round.rows.of)
		return err
	})
	s.ended = map[state.AttemptKey]cost.Usage{}
	for _, c := range calls {
		s.add(c.AttemptKey, c.Usage)
	}
	return calls, err
}

// add adds the cost of a call that has ended.
func (s *spender) add(attempt state.AttemptKey, used cost.Usage) {
	s.total = s.total.Add(used)
	s.ended[attempt] = s.ended[attempt].Add(used)
}

// setAttempt sets the attempt of the next calls. No call of the previous one may be in flight.
func (s *spender) setAttempt(attempt state.AttemptKey, earlier []state.AttemptKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempt, s.earlier = attempt, earlier
	s.open, s.received, s.refusal = map[*reservedCall]cost.Usage{}, map[string]bool{}, nil
}

// spent returns what was spent on the running attempt, including calls in flight.
func (s *spender) spent() cost.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := s.ended[s.attempt]
	for _, used := range s.open {
		sum = sum.Add(used)
	}
	return sum
}

// spentInAll is the known cost of the assignment's calls that have ended.
func (s *spender) spentInAll() cost.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// lastRefusal is the budget that has refused a call of the attempt; nil: none did.
func (s *spender) lastRefusal() *BudgetStop {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusal
}
