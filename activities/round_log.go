package activities

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/state"
)

// roundLog is the assignment's record and the log of the round at work, which is part of
// it. Only it reads and writes the record. Its methods may be called from any goroutine.
type roundLog struct {
	exec *execution
	in   RoundInput
	// round names the round's entry in the record.
	round session.RoundKey
	// agent is the agent of the round.
	agent string

	// writing is held while the record is written, mu only while the fields below are used.
	writing sync.Mutex

	mu     sync.Mutex
	record session.Record
	// log is the last heartbeat's until the record is loaded.
	log session.RoundLog
	// recorded: the record has the result, and no other execution continues the round.
	recorded bool
	// found is the state of the round in the record when this execution loaded it.
	found earlierWork
	// stored is the conversation in the stored record.
	stored *session.Conversation
	// unnoted: the log says that the agent starts, but the stored record does not yet.
	unnoted bool
}

// earlierWork is the state of a round in the assignment's record when an execution begins.
type earlierWork int

const (
	// nothingEarlier: no execution has recorded anything of the round.
	nothingEarlier earlierWork = iota
	// thisActivity: an earlier execution of the same activity has.
	thisActivity
	// earlierActivity: another activity has, which this one continues.
	earlierActivity
)

func newRoundLog(ctx context.Context, e *execution, in RoundInput) *roundLog {
	return &roundLog{exec: e, in: in, round: e.roundKey(in.Run), log: heartbeatLog(ctx)}
}

// heartbeatLog is the log in the last heartbeat that reached Temporal.
func heartbeatLog(ctx context.Context) session.RoundLog {
	var last Heartbeat
	if activity.HasHeartbeatDetails(ctx) {
		if err := activity.GetHeartbeatDetails(ctx, &last); err != nil {
			return session.RoundLog{}
		}
	}
	return last.Log
}

// load reads the state of earlier executions of the round: the log of its attempts and,
// if it has succeeded, its result. The caller holds the assignment's lock: if the agent
// was started and its end was not noted, a worker was lost.
func (l *roundLog) load(ctx context.Context, agent string, now time.Time) (*session.RoundResult, error) {
	record, err := fromStore(ctx, l.exec.retryStore, func() (session.Record, error) { return l.exec.sessions.Record(l.exec.key, l.exec.id) })
	if errors.Is(err, session.ErrCorrupt) {
		activity.GetLogger(ctx).Warn("the assignment's record was corrupt; its log continues from the heartbeat", "error", err)
	}
	switch {
	case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrCorrupt):
		record = session.Record{Schema: session.RecordSchema, Assignment: l.exec.id, Incarnation: l.in.Incarnation, Epoch: 1}
	case err != nil:
		return nil, err
	}
	run := l.round.Run
	if record.Incarnation > l.in.Incarnation || record.Run == run && record.Seq > l.in.Seq {
		return nil, session.ErrFenced
	}
	record.Run, record.Seq = run, l.in.Seq
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record, l.agent, l.stored = record, agent, record.Conversation
	switch {
	case l.continueEarlier(now):
		l.found = earlierActivity
	case l.record.Round(l.round) != nil:
		l.found = thisActivity
	}
	this := l.entry()
	if this.Result != nil {
		l.log = this.RoundLog
		return this.Result, nil
	}
	if this.Revision >= l.log.Revision {
		l.log = this.RoundLog
	}
	if l.log.Started {
		l.countLostWorker()
	}
	return nil, nil
}

func (l *roundLog) countLostWorker() {
	l.log.Revision++
	l.log.Started = false
	l.log.Lost++
	if l.log.Outage != nil { // the files may be half of what the agent was writing
		outage := *l.log.Outage
		outage.Left = false
		l.log.Outage = &outage
	}
	l.exec.observer.WorkerLost(l.agent)
}

// continueEarlier takes over the entry of the activity that this one continues, if the
// record has it.
func (l *roundLog) continueEarlier(now time.Time) bool {
	before := l.round
	before.Activity = l.in.After
	this := l.record.Round(before)
	if l.in.After == "" || this == nil {
		return false
	}
	this.Key, this.Agent, this.Permit = l.round, l.in.Agent, nil
	if o := this.Outage; o != nil {
		o.Noticed = l.in.Outage == OutageNoticed
		if l.in.Outage == OutageRetry {
			o.Since, o.PatienceFrom, o.Until, o.Waits, o.Told = now, now, now, 0, ""
		}
	}
	return true
}

// loadCalls updates the record from the assignment's calls. since is the first run of this admission.
func (l *roundLog) loadCalls(ctx context.Context, calls []state.Call, since int64) error {
	l.mu.Lock()
	write := l.findEpochs(calls, since)
	l.entry().Epoch = l.epochLocked() // a record that only fences has none
	progress := 0
	for _, c := range calls {
		if c.State != state.CallUnsettled && c.Counts() {
			progress++
		}
	}
	if progress > l.log.Calls { // the lost worker had made progress
		l.log.Calls, l.log.LostAtProgress = progress, l.log.Lost
	}
	write = write || l.log.Lost > 0 && progress > 0
	l.mu.Unlock()
	if write {
		return l.write(ctx)
	}
	return nil
}

// findEpochs fills in epochs that the record does not have: if it was lost, the
// calls still have the paid ones. It returns true if the incarnation's first epoch
// cannot be found from them later: then the record must be written before
// anything is paid.
func (l *roundLog) findEpochs(paid []state.Call, since int64) (write bool) {
	highest, ofThisRun := max(l.record.Epoch, 1), 0
	for _, call := range paid {
		epoch := int(call.Pass)
		highest = max(highest, epoch)
		if call.Run >= since && (ofThisRun == 0 || epoch < ofThisRun) {
			ofThisRun = epoch
		}
	}
	if l.record.Began == 0 {
		l.record.Began = cmp.Or(ofThisRun, highest)
		write = l.in.Series > 0
	}
	l.record.Epoch = max(highest, l.epochLocked())
	return write
}

// epochLocked returns the round's epoch: the epoch at the incarnation's begin plus the
// number of new series since. A session that was reset gets the same epochs again,
// independent of the record's later content.
func (l *roundLog) epochLocked() int { return cmp.Or(l.record.Began, l.record.Epoch) + l.in.Series }

// attemptKey names the running attempt.
func (l *roundLog) attemptKey() session.CallKey {
	l.mu.Lock()
	defer l.mu.Unlock()
	return session.CallKey{Epoch: l.epochLocked(), Round: l.in.Round, Attempt: len(l.log.Attempts) + 1}
}

// entry returns the record's entry for the round, made if need be. The caller holds mu.
func (l *roundLog) entry() *session.RoundRecord {
	if this := l.record.Round(l.round); this != nil {
		return this
	}
	l.record.Rounds = append(l.record.Rounds, session.RoundRecord{
		Key: l.round, Round: l.in.Round, Epoch: l.epochLocked(), Agent: l.in.Agent, Integrating: l.in.Integrating, Supplied: l.in.Supplied != "",
	})
	return &l.record.Rounds[len(l.record.Rounds)-1]
}

// get returns the log as it is now.
func (l *roundLog) get() session.RoundLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log
}

// rounds lists the record's rounds, and the epoch of this one.
func (l *roundLog) rounds() (rounds []session.RoundRecord, began, epoch int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.record.Rounds), l.record.Began, l.epochLocked()
}

// outage returns the outage of the round's agent; nil: there is none.
func (l *roundLog) outage() *session.Outage {
	log := l.get()
	if o := log.Outage; o != nil && o.Agent == l.agent {
		copied := *o
		return &copied
	}
	return nil
}

// change changes the log, for the next record and the next heartbeat.
func (l *roundLog) change(change func(*session.RoundLog)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log.Revision++
	change(&l.log)
}

// setPermit notes how the breaker of the agent let the round begin, without a new revision.
func (l *roundLog) setPermit(p *session.BreakerPermit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log.Permit = p
}

// noteStart notes durably that the agent or its substitute is about to be
// started: see [session.RoundLog.Started]. begun is when the attempt was begun; zero: now. continuable:
// a later execution can continue the agent's conversation.
func (l *roundLog) noteStart(ctx context.Context, begun, now time.Time, continuable bool, basis session.Basis) error {
	l.change(func(log *session.RoundLog) {
		log.Started, log.AttemptAt, log.Basis, l.unnoted = true, cmp.Or(begun, now), &basis, true
		log.Continue(now)
		if continuable {
			log.Begun = len(log.Attempts) + 1
		}
	})
	if err := l.write(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unnoted = false
	return nil
}

// noteEnd notes that the agent has ended, with neither a result nor a failure of the
// attempt. If the store cannot be used now, the heartbeat has this note.
func (l *roundLog) noteEnd(ctx context.Context) {
	if !l.get().Started {
		return
	}
	l.change(func(log *session.RoundLog) { log.Started = false })
	l.tryPut(ctx, "the execution's end is recorded only in its heartbeat")
}

// recordResult writes the result durably to the record.
func (l *roundLog) recordResult(ctx context.Context, result *session.RoundResult) error {
	l.change(func(log *session.RoundLog) {
		log.Started, log.Outage = false, nil
		this := l.entry()
		this.Result, this.Stale = result, len(result.SendsBack) > 0
	})
	if err := l.write(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recorded = true
	return nil
}

func (l *roundLog) isRecorded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recorded
}

// recordGivenUp notes durably that the round has failed for good. last: no other follows by itself.
func (l *roundLog) recordGivenUp(ctx context.Context, last bool) error {
	l.mu.Lock()
	this := l.entry()
	this.GaveUp, this.Last = true, last
	l.mu.Unlock()
	return l.write(ctx)
}

// recordNotBegun removes a round that has not begun from the record. A round that has begun
// with another agent stays in the record for the activity that continues it.
func (l *roundLog) recordNotBegun(ctx context.Context) error {
	l.mu.Lock()
	if l.found == earlierActivity || len(l.log.Attempts) > 0 || l.log.Begun > 0 || l.log.Lost > 0 || l.log.Outage != nil {
		l.mu.Unlock()
		return l.write(ctx) // under the key with which the next activity finds it
	}
	if l.found == nothingEarlier {
		l.mu.Unlock()
		return nil
	}
	l.record.Rounds = slices.DeleteFunc(l.record.Rounds, func(r session.RoundRecord) bool { return r.Key == l.round })
	record := l.record
	l.mu.Unlock()
	return l.exec.retryStore(ctx, func() error { return l.exec.sessions.PutRecord(l.exec.key, record) })
}

// write brings the assignment's record up to date, durably.
func (l *roundLog) write(ctx context.Context) error { return l.exec.retryStore(ctx, l.put) }

// tryPut writes the record once. If that fails, it logs the consequence, which is otherwise.
func (l *roundLog) tryPut(ctx context.Context, otherwise string) {
	if err := l.put(); err != nil {
		activity.GetLogger(ctx).Warn(otherwise, "error", err)
	}
}

// put writes the record. Heartbeats do not wait for it: a slow store must not look like a lost worker.
func (l *roundLog) put() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	l.entry().RoundLog = l.log
	l.record.Incarnation = l.in.Incarnation
	record := l.record
	record.Rounds = slices.Clone(record.Rounds)
	l.mu.Unlock()
	err := l.exec.sessions.PutRecord(l.exec.key, record)
	if err == nil {
		l.mu.Lock()
		l.stored = record.Conversation
		l.mu.Unlock()
	}
	return err
}

// conversation returns the agent's conversation in the stored record; nil: there is none.
func (l *roundLog) conversation() *session.Conversation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stored
}

// setConversation changes the conversation of the next record.
func (l *roundLog) setConversation(c *session.Conversation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record.Conversation = c
}

// heartbeat returns the log for a heartbeat: without outputs, because histories contain heartbeats.
func (l *roundLog) heartbeat() Heartbeat {
	l.mu.Lock()
	defer l.mu.Unlock()
	log := l.log
	log.Attempts, log.Started = slices.Clone(log.Attempts), log.Started && !l.unnoted
	for i := range log.Attempts {
		log.Attempts[i].Failure.Output = ""
	}
	if log.Outage != nil {
		o := *log.Outage
		o.Failure.Output = ""
		log.Outage = &o
	}
	return Heartbeat{Log: log, Attempt: len(log.Attempts) + 1}
}
