package activities

import (
	"context"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// load reads the assignment's calls. A call that an execution before this one did not end is unsettled from now on: its money
// may be spent.
func (s *spender) load(ctx context.Context, lost lostCalls) (calls []state.Call, err error) {
	err = s.round.exec.retryStore(ctx, func() error {
		if err := lost.settle(ctx, s.round.rows.of); err != nil {
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
