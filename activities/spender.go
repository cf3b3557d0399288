package activities

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// spender reserves and books the calls of an attempt. It implements [session.Calls] with the rows of the state.
type spender struct {
	files    Files
	state    State
	observer *callObserver
	round    callListener
	of       state.Assignment
	team     spec.Team
	// retryState tries something with the state until it can be used.
	retryState func(ctx context.Context, try func() error) error
	// setProgress sets the progress line during a wait.
	setProgress func(line string)
	// waits has the time in which the attempt waits for others.
	waits *session.Waits
	clock Clock
	// fence names this execution, and answersFrom is the first pass whose stored answers it may use.
	fence       state.Fence
	answersFrom int
	// agent is the agent of the round. free: an attempt without a stated cost needs no reservation.
	agent string
	free  bool

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

// callListener is notified of the ends of calls, one at a time.
type callListener interface {
	// callEnded: all processes of the call have ended.
	callEnded()
	// callBooked: a call is booked. answered: the call's answer is stored.
	callBooked(ctx context.Context, answered bool)
}

// load reads the assignment's calls. A call that an execution before this one did not end is unsettled from now on: its money
// may be spent.
func (s *spender) load(ctx context.Context, lost lostCalls) (calls []state.Call, err error) {
	err = s.retryState(ctx, func() error {
		if err := lost.settle(ctx, s.of); err != nil {
			return err
		}
		calls, err = s.state.Calls(ctx, s.of)
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

// begin sets the attempt of the next calls. No call of the previous one may be in flight.
func (s *spender) begin(attempt state.AttemptKey, earlier []state.AttemptKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempt, s.earlier = attempt, earlier
	s.open, s.received, s.refusal = map[*reservedCall]cost.Usage{}, map[string]bool{}, nil
}

// Stored looks for an answer among those of this attempt, and of the ones whose conversation it continues with.
func (s *spender) Stored(ctx context.Context, _ int, request spec.Digest) (*session.StoredTurn, error) {
	for {
		call, err := s.find(ctx, request)
		if call == nil || err != nil {
			return nil, err
		}
		stored := &session.StoredTurn{Call: call.ID, Usage: call.Usage}
		if stored.Answer, err = s.Get(ctx, spec.Digest(call.Answer)); err != nil {
			activity.GetLogger(ctx).Warn("a stored answer is lost", "call", call.ID, "error", err)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			continue // a call of the same request may have been paid for again
		}
		if call.Tools != "" {
			if stored.Tools, err = s.Get(ctx, spec.Digest(call.Tools)); err != nil {
				stored.Tools = nil
			}
		}
		s.observer.replayed(s.agent)
		return stored, nil
	}
}

// find finds an answer and marks it as received, so that a concurrent equal request does not get it, too.
func (s *spender) find(ctx context.Context, request spec.Digest) (found *state.Call, err error) {
	err = s.retryState(ctx, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		call, err := s.state.Answer(ctx, append([]state.AttemptKey{s.attempt}, s.earlier...), int64(s.answersFrom), string(request), s.received)
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
	c.observed = s.observer.begin(ctx, plan)
	s.mu.Lock()
	s.open[c] = cost.Usage{}
	s.mu.Unlock()
	return c, nil
}

// KeepTools stores the tool results of a call. It can be one of an earlier attempt, which
// ended before its tools had worked.
func (s *spender) KeepTools(ctx context.Context, call string, doc []byte) error {
	name, err := s.Put(ctx, doc)
	if err != nil {
		return err
	}
	return s.retryState(ctx, func() error { return s.state.KeepTools(ctx, call, string(name)) })
}

// Put stores a blob. It waits while the store cannot be used.
func (s *spender) Put(ctx context.Context, data []byte) (spec.Digest, error) {
	return fromStore(ctx, s.retryState, func() (spec.Digest, error) { return s.files.PutBlob(ctx, data) })
}

// Get reads a blob.
func (s *spender) Get(ctx context.Context, name spec.Digest) ([]byte, error) {
	return fromStore(ctx, s.retryState, func() ([]byte, error) { return s.files.Blob(ctx, name) })
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

// refuse records the budget that refuses a call, and returns the failure.
func (s *spender) refuse(ctx context.Context, b budget.Budget, least cost.Amount) string {
	stop := BudgetStop{Scope: b.Scope(), Least: least}
	var calls budget.UnsettledCalls
	day := budget.Date(s.clock())
	if b.Kind == session.BudgetOfDay {
		stop.Date = day
	}
	if b.Unsettled != (cost.Amount{}) {
		calls, _ = s.state.UnsettledOf(ctx, s.of.Key, b, day) // else the text does not name them
	}
	stop.Unsettled = calls.Calls > 0
	stop.Message = budget.Refusal(b, least, day, calls)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = &stop
	return stop.Message
}

// lastRefusal is the budget that has refused a call of the attempt; nil: none did.
func (s *spender) lastRefusal() *BudgetStop {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusal
}

// warn logs the thresholds of budgets that are reached now.
func (s *spender) warn(ctx context.Context) error {
	if !s.team.Capped() {
		return nil
	}
	return s.retryState(ctx, func() error {
		due, budgets, err := s.state.Warn(ctx, s.of, s.team.Name, s.team.Budget.WarnAt)
		if err != nil {
			return err
		}
		s.observer.fractions(budgets)
		for _, w := range due {
			activity.GetLogger(ctx).Warn("a budget threshold is reached", "budget", w.Scope,
				"at", w.At, "tokens", w.Spent.Tokens, "usd", w.Spent.USD.String())
		}
		return nil
	})
}

// describe adds the cost of the attempt to a heartbeat.
func (s *spender) describe(beat *Heartbeat) { beat.Agent, beat.Spent = s.agent, s.spent() }
