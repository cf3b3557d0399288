package activities

import (
	"context"
	"sync"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// spender reserves and books the calls of an attempt. It implements [session.Calls] with the
// assignment's journal, which is authoritative, and the session's ledger, which has the sums
// of all assignments.
type spender struct {
	files    Files
	journal  *journalWriter
	budgets  *reservations
	observer *callObserver
	agents   Agents
	round    callListener
	// setProgress sets the progress line during a wait.
	setProgress func(line string)
	// waits has the time in which the attempt waits for others.
	waits *session.Waits
	// run is the session's workflow run, and agent the agent of the round. free: an attempt
	// without a stated cost needs no reservation.
	run, agent string
	free       bool

	mu sync.Mutex
	// attempt is the running attempt; earlier are the attempts whose conversation it
	// continues, newest first.
	attempt session.CallKey
	earlier []session.CallKey
	// open are the calls in flight, with their usage so far.
	open map[*paidCall]cost.Usage
	// delivered are the calls of any turn whose answers the running program has received.
	delivered map[int64]bool
}

// callListener is notified of the ends of calls, one at a time.
type callListener interface {
	// callEnded: all processes of the call have ended.
	callEnded()
	// callBooked: a call is booked in the journal. answered: the
	// call's answer is stored.
	callBooked(ctx context.Context, answered bool)
}

// begin sets the attempt of the next calls. No call of the previous one may be in flight.
func (s *spender) begin(attempt session.CallKey, earlier []session.CallKey) {
	s.mu.Lock()
	s.attempt, s.earlier = attempt, earlier
	s.open, s.delivered = map[*paidCall]cost.Usage{}, map[int64]bool{}
	s.mu.Unlock()
	s.budgets.refused(budget.Verdict{})
}

// Stored looks for a turn among those of this attempt, and of the ones whose
// conversation it continues with.
func (s *spender) Stored(ctx context.Context, turn int, request spec.Digest) (*session.StoredTurn, error) {
	call := s.find(turn, request)
	if call == nil {
		return nil, nil
	}
	stored := &session.StoredTurn{Call: call.ID, Usage: call.Usage}
	var err error
	if stored.Answer, err = s.Get(ctx, call.Answer); err != nil {
		activity.GetLogger(ctx).Warn("a stored answer is lost; the call is paid for again", "call", call.ID, "error", err)
		return nil, ctx.Err()
	}
	if call.Tools != "" {
		if stored.Tools, err = s.Get(ctx, call.Tools); err != nil {
			stored.Tools = nil
		}
	}
	s.observer.replayed(s.agent)
	return stored, nil
}

// find looks for a call in the journal. It marks an answer to a request of any turn as delivered,
// so that a concurrent request does not get it, too.
func (s *spender) find(turn int, request spec.Digest) (found *budget.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	attempts := append([]session.CallKey{s.attempt}, s.earlier...)
	s.journal.read(func(j *budget.Journal) {
		if turn == session.AnyTurn {
			found = j.FindAny(attempts, request, func(call int64) bool { return s.delivered[call] })
			return
		}
		for _, key := range attempts {
			key.Turn = turn
			if found = j.Find(key, request); found != nil {
				return
			}
		}
	})
	if found == nil {
		return nil
	}
	if turn == session.AnyTurn {
		s.delivered[found.ID] = true
	}
	call := *found
	return &call
}

// Undelivered makes the answer of a call available again.
func (s *spender) Undelivered(call int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.delivered, call)
}

// Begin waits until the session's budgets permit the possible cost of a call, reserves it,
// and records durably that the call begins.
func (s *spender) Begin(ctx context.Context, plan session.CallPlan) (session.Call, error) {
	s.mu.Lock()
	c := &paidCall{spender: s, plan: plan, key: s.attempt}
	s.mu.Unlock()
	c.key.Turn = plan.Turn
	if err := c.reserve(ctx); err != nil {
		return nil, err
	}
	c.observed = s.observer.begin(ctx, plan)
	s.mu.Lock()
	s.open[c] = cost.Usage{}
	s.mu.Unlock()
	return c, nil
}

// KeepTools stores the tool results of a turn. It can be one of an earlier attempt, which
// ended before its tools had worked.
func (s *spender) KeepTools(ctx context.Context, call int64, doc []byte) error {
	name, err := s.Put(ctx, doc)
	if err != nil {
		return err
	}
	if err := s.journal.writing.Acquire(ctx, 1); err != nil {
		return context.Cause(ctx)
	}
	defer s.journal.writing.Release(1)
	return s.journal.append(ctx, budget.Entry{Kind: budget.Tools, Call: call, Tools: name})
}

// Put stores a blob. It waits while the store cannot be used.
func (s *spender) Put(ctx context.Context, data []byte) (spec.Digest, error) {
	return fromStore(ctx, s.journal.retryStore, func() (spec.Digest, error) { return s.files.PutBlob(ctx, data) })
}

// Get reads a blob.
func (s *spender) Get(ctx context.Context, name spec.Digest) ([]byte, error) {
	return fromStore(ctx, s.journal.retryStore, func() ([]byte, error) { return s.files.Blob(ctx, name) })
}

// spent returns what this run has spent on the running attempt, including calls in
// flight.
func (s *spender) spent() cost.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := s.journal.spentOn(s.run, s.attempt)
	for _, used := range s.open {
		sum = sum.Add(used)
	}
	return sum
}

// describe adds the cost of the attempt and of the calls in flight to a heartbeat.
func (s *spender) describe(beat *Heartbeat) {
	beat.Agent, beat.Spent = s.agent, s.spent()
	s.mu.Lock()
	defer s.mu.Unlock()
	beat.Live = map[int64]cost.Usage{}
	for c, used := range s.open {
		if id := c.ID(); id != 0 && used != (cost.Usage{}) {
			beat.Live[id] = used
		}
	}
}
