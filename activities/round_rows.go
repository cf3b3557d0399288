package activities

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// roundRows is the round at work in its rows, and what earlier rounds of the assignment have done. Only it reads and writes
// them. Its methods may be called from any goroutine.
type roundRows struct {
	exec  *execution
	state State
	in    RoundInput
	of    state.Assignment
	// agent is the agent of the round.
	agent string

	// writing is held while the rows are written, mu only while the fields below are used.
	writing sync.Mutex

	mu sync.Mutex
	// opened is what the rows had when this execution began.
	opened state.OpenedRound
	// round is the round at work.
	round        session.RoundRecord
	conversation *session.Conversation
	// found is the state of the round when this execution loaded it.
	found earlierWork
	// stored is the conversation in the rows.
	stored *session.Conversation
}

// earlierWork is the state of a round when an execution begins.
type earlierWork int

const (
	// nothingEarlier: no execution has recorded anything of the round.
	nothingEarlier earlierWork = iota
	// thisActivity: an earlier execution of the same activity has recorded something.
	thisActivity
	// earlierActivity: another activity, which this one continues, has recorded something.
	earlierActivity
)

func newRoundRows(e *execution, s State, in RoundInput) *roundRows {
	return &roundRows{exec: e, state: s, in: in, of: state.Assignment{Key: e.key, AssignmentID: e.id}}
}

// load reads the state of earlier executions of the round: the log of its attempts and,
// if it has succeeded, its result. The caller holds the assignment's lock: if the agent
// was started and its end was not noted, a worker was lost.
func (l *roundRows) load(ctx context.Context, s sessionContext, agent string, now time.Time) (*session.RoundResult, error) {
	opened, err := l.open(ctx, s)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened, l.agent, l.stored, l.conversation = opened, agent, opened.Record.Conversation, opened.Record.Conversation
	l.round = session.RoundRecord{
		Order: opened.Order, Round: l.in.Round, Integrating: l.in.Integrating,
		Supplied: l.in.Supplied != "",
	}
	for _, r := range opened.Record.Rounds {
		if r.Pass == opened.Order.Pass && r.Round == l.in.Round {
			l.round, l.found = r, thisActivity
		}
	}
	if l.found == thisActivity && l.round.Activity != l.exec.info.ActivityID {
		l.found = earlierActivity
		l.continueEarlier(now)
	}
	l.round.Activity, l.round.Seq, l.round.Agent = l.exec.info.ActivityID, l.in.Seq, l.in.Agent
	if l.round.Result != nil {
		result := *l.round.Result
		result.Total = opened.Record.Total
		return &result, nil
	}
	if l.round.AtWork {
		l.countLostWorker(ctx)
	}
	return nil, nil
}

// open makes this execution the only one that may write the assignment's rows.
func (l *roundRows) open(ctx context.Context, s sessionContext) (opened state.OpenedRound, err error) {
	info := l.exec.info
	order := state.RoundOrder{
		Assignment: l.of, TemporalRun: info.WorkflowExecution.RunID, Ordered: l.in.Ordered, Because: l.in.Because, Forced: l.in.Forced,
		Round: l.in.Round, Activity: info.ActivityID, Seq: l.in.Seq, Agent: l.in.Agent, Integrating: l.in.Integrating,
		Supplied: l.in.Supplied != "",
		Holder:   executionKey(info),
	}
	err = l.exec.retryStore(ctx, func() error {
		opened, err = l.state.OpenRound(ctx, order)
		if errors.Is(err, state.ErrNotFound) {
			if err = s.admitAgain(ctx, l.state); err == nil {
				opened, err = l.state.OpenRound(ctx, order)
			}
		}
		return err
	})
	return opened, err
}

func (l *roundRows) countLostWorker(ctx context.Context) {
	l.round.AtWork = false
	l.round.Lost++
	activity.GetLogger(ctx).Warn("the worker of an earlier execution was lost", "lost", l.round.Lost)
	if l.round.Outage != nil { // the files may be half of what the agent was writing
		outage := *l.round.Outage
		outage.FilesInPlace = false
		l.round.Outage = &outage
	}
	l.exec.observer.WorkerLost(l.agent)
}

// continueEarlier continues a round that another activity has begun.
func (l *roundRows) continueEarlier(now time.Time) {
	l.round.Permit = nil
	if l.round.Outage == nil {
		return
	}
	o := *l.round.Outage
	o.Noticed = l.in.Outage == OutageNoticed
	if l.in.Outage == OutageRetry {
		o.Since, o.PatienceFrom, o.Until, o.Tries, o.Signalled = now, now, now, 0, ""
	}
	l.round.Outage = &o
}

// loadCalls notes progress that a lost worker had made. It compares how many calls of the assignment have ended with how many
// had when a loss was last examined.
func (l *roundRows) loadCalls(ctx context.Context, calls []state.Call) error {
	l.mu.Lock()
	progress := 0
	for _, c := range calls {
		if c.State != state.CallUnsettled && c.EndedAt.Valid && (c.Answer != "" || c.Usage != cost.Usage{}) {
			progress++
		}
	}
	if progress > l.round.Calls {
		l.round.Calls, l.round.LostAtProgress = progress, l.round.Lost
	}
	write := l.round.Lost > 0 && progress > 0
	l.mu.Unlock()
	if write {
		return l.write(ctx)
	}
	return nil
}

// attemptKey names the running attempt.
func (l *roundRows) attemptKey() state.AttemptKey {
	r := l.snapshot()
	return state.AttemptKey{Assignment: l.of, Pass: int64(r.Pass), Round: int64(r.Round), Attempt: int64(len(r.Attempts) + 1)}
}

// snapshot returns the round as it is now.
func (l *roundRows) snapshot() session.RoundRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.round
}

// rounds returns the assignment's rounds before this one, in their order.
func (l *roundRows) rounds() []session.RoundRecord {
	this := l.snapshot()
	return slices.DeleteFunc(slices.Clone(l.opened.Record.Rounds), func(r session.RoundRecord) bool {
		return r.Pass == this.Pass &&
			r.Round >= this.Round
	})
}

// outage returns the outage of the round's agent; nil: there is none.
func (l *roundRows) outage() *session.Outage {
	log := l.snapshot()
	if o := log.Outage; o != nil && o.Agent == l.agent {
		copied := *o
		return &copied
	}
	return nil
}

// change changes the log, for the next write.
func (l *roundRows) change(change func(*session.RoundLog)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.round.RoundLog)
}

// setPermit notes how the breaker of the agent let the round begin. The next write has it.
func (l *roundRows) setPermit(p *session.BreakerPermit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.round.Permit = p
}

// noteStart notes durably that the agent or its substitute is about to be
// started: see [session.RoundLog.AtWork]. begun is when the attempt was begun; zero: now. continuable:
// a later execution can continue the agent's conversation.
func (l *roundRows) noteStart(ctx context.Context, begun, now time.Time, continuable bool, basis session.Basis) error {
	l.change(func(log *session.RoundLog) {
		log.AtWork, log.AttemptAt, log.Basis, log.Ended = true, now, &basis, nil
		if !begun.IsZero() {
			log.AttemptAt = begun
		}
		log.Continue(now)
		if continuable {
			log.ContinuableAttempt = len(log.Attempts) + 1
		}
	})
	return l.write(ctx)
}

// noteAgentEnded notes durably how the agent has ended, or that its work is collected. What follows, the checks, may end the
// worker, so the attempt stays at work.
func (l *roundRows) noteAgentEnded(ctx context.Context, ended session.AgentEnded) error {
	l.change(func(log *session.RoundLog) { log.AtWork, log.Ended = true, &ended })
	if ended.Files == "" {
		activity.GetLogger(ctx).Info("the agent has ended; its files are collected and checked")
	}
	return l.write(ctx)
}

// noteInterrupted notes that the agent has ended, with neither a result nor a failure of the
// attempt. If the store cannot be used now, the next execution counts a lost worker.
func (l *roundRows) noteInterrupted(ctx context.Context) {
	if !l.snapshot().AtWork {
		return
	}
	l.change(func(log *session.RoundLog) { log.AtWork = false })
	err := l.put(ctx)
	if errors.Is(err, session.ErrFenced) { // a later run waits for the lock, and would count a lost worker
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
		r := l.snapshot()
		err = l.state.EndWork(ctx, l.opened.Fence.Holder, l.of, r.Pass, r.Round)
	}
	if err != nil {
		activity.GetLogger(ctx).Warn("the execution's end is not recorded", "error", err)
	}
}

// recordResult writes the result durably.
func (l *roundRows) recordResult(ctx context.Context, result *session.RoundResult) error {
	l.change(func(log *session.RoundLog) {
		log.AtWork, log.Outage, log.Ended = false, nil, nil
		l.round.Result = result
	})
	return l.write(ctx)
}

// recordGivenUp notes durably that the round has failed for good. last: no other follows by itself.
func (l *roundRows) recordGivenUp(ctx context.Context, last bool) error {
	l.mu.Lock()
	l.round.GaveUp, l.round.Last = true, last
	l.mu.Unlock()
	return l.write(ctx)
}

// recordNotBegun removes a round that has not begun. A round that has begun
// with another agent stays for the activity that continues it.
func (l *roundRows) recordNotBegun(ctx context.Context) error {
	l.mu.Lock()
	r, found := l.round, l.found
	l.mu.Unlock()
	switch {
	case found == earlierActivity || len(r.Attempts) > 0 || r.ContinuableAttempt > 0 || r.Lost > 0 || r.Outage != nil:
		return l.write(ctx) // the next activity continues it
	case found == nothingEarlier:
		return nil
	}
	return l.exec.retryStore(ctx, func() error { return l.state.DropRound(ctx, l.opened.Fence, l.of, r.Pass, r.Round) })
}

// write brings the rows up to date, durably.
func (l *roundRows) write(ctx context.Context) error {
	return l.exec.retryStore(ctx, func() error { return l.put(ctx) })
}

// tryPut writes the rows once. If that fails, it logs the consequence.
func (l *roundRows) tryPut(ctx context.Context, consequence string) {
	if err := l.put(ctx); err != nil {
		activity.GetLogger(ctx).Warn(consequence, "error", err)
	}
}

// put writes the rows. Heartbeats do not wait for it: a slow store must not look like a lost worker.
func (l *roundRows) put(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout) // a stopping worker writes what it knows
	defer cancel()
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	round, conversation := l.round, l.conversation
	round.Attempts = slices.Clone(round.Attempts)
	l.mu.Unlock()
	err := l.state.PutRound(ctx, l.opened.Fence, l.of, round, conversation)
	if err == nil {
		l.mu.Lock()
		l.stored = conversation
		l.mu.Unlock()
	}
	return err
}

// storedConversation returns the agent's conversation in the rows; nil: there is none.
func (l *roundRows) storedConversation() *session.Conversation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stored
}

// setConversation changes the conversation of the next write.
func (l *roundRows) setConversation(c *session.Conversation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conversation = c
}
