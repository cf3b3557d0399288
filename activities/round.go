package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failpoint"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// Rounds does the rounds of assignments on a worker that offers their agent.
type Rounds struct {
	Files    Files
	Sessions Sessions
	Ledgers  Ledgers
	Agents   Agents
	// Breakers decides whether rounds may begin, and hears how they end; nil:
	// every round may.
	Breakers Breakers
	// Heartbeats reports rounds to Temporal; nil: none is reported.
	Heartbeats Heartbeats
	// Observer hears of rounds, attempts and calls.
	Observer Observer
	// Signals tells workflows of outages while their rounds continue; nil: they learn of them
	// from rounds' ends.
	Signals Signals
	// HoldSlot is for how long an outage keeps the agent's slot; zero: a minute. Random
	// spreads the waits for a provider.
	HoldSlot time.Duration
	Random   Random
	Clock    Clock
	// LostLimit is the number of lost workers in a row, without progress
	// between, after which an assignment is given up as worker_lost.
	LostLimit int
	// Drain is how long a stopping worker lets an attempt continue before it
	// hands it over.
	Drain time.Duration
}

// The rhythm of a round at work.
const (
	// firstBeat is when a round first reports to Temporal, and beatEvery how often
	// after that. beatLimit bounds a report, lastBeatLimit one that its end waits for.
	firstBeat     = time.Second
	beatEvery     = 5 * time.Second
	beatLimit     = 10 * time.Second
	lastBeatLimit = 3 * time.Second
	// lockEvery is how often a round looks at first whether another executor of its
	// assignment, on a worker that lost touch, has ended; lockEveryMost how seldom
	// once that takes long.
	lockEvery     = 50 * time.Millisecond
	lockEveryMost = time.Second
	// restMost is the longest wait between attempts that a round makes up for itself.
	restMost = 5 * time.Second
	// fenceEvery is how often a round looks whether a later incarnation of its
	// session has taken over.
	fenceEvery = 3 * time.Second
	// storeWait and storeWaitMax bound the waits for a store that cannot be used.
	storeWait    = time.Second
	storeWaitMax = 30 * time.Second
)

// round is one execution of one round: Temporal starts a new one for every
// attempt, and after every lost worker.
type round struct {
	*Rounds
	in      RoundInput
	info    activity.Info
	session sessionContext
	// spender is what the round pays; nil until the round is recalled.
	spender *spender

	// announcing is under way while others are told that the provider is back.
	announcing sync.WaitGroup

	mu sync.Mutex
	// held is the assignment's lock; nil until this is its executor.
	held   session.Lock
	record session.Record
	// log is the last heartbeat's until the round is recalled.
	log      session.RoundLog
	progress string
	// durable: the record has the result, and nobody takes the round up again.
	durable bool
	// stored: the record had the round when this execution came to it. goesOnWith: it
	// has what an earlier activity did of the round.
	stored, goesOnWith bool
	// place is where the round works.
	place place
	// unnoted: the log says that the agent starts, and the record does not yet.
	unnoted bool
	// merging: this is the merge of a phase, and its checks are noted as started.
	merging bool
}

// Run does one attempt of a round and decides what its end means for the round.
//
// It returns the round's result, once; a RecoverableError that has Temporal
// start the next attempt after a wait; or the non-retryable UnrecoverableError
// with a [RoundFailure], when the persona's attempts are spent or useless. A
// result is on disk in the assignment's record before it is returned, and an
// execution that finds it there returns it without working. Lost workers, a
// stopping worker and an unusable store use up no attempt.
//
// These non-retryable errors use up nothing. A later activity continues the round:
//
//	error           detail        meaning
//	BreakerOpen     [TurnedAway]  the breaker of the round's agent is open
//	ProviderOutage  [OutageStop]  the provider has failed for longer than the team's patience
//	BudgetSpent     [BudgetStop]  a budget is spent that the session can raise
//
// A round that a person has supplied files for has no agent, no breaker and no
// attempts: the files are held to the assignment's contract, and the round ends with
// them as its result, or with a final failure in an UnrecoverableError.
func (rs *Rounds) Run(ctx context.Context, in RoundInput) (session.RoundResult, error) {
	r := &round{Rounds: rs, in: in, info: activity.GetInfo(ctx), log: heartbeatLog(ctx)}
	defer r.announcing.Wait()
	work, over := r.atWork(ctx)
	defer over()
	unlock, err := r.lock(work)
	if err != nil {
		return session.RoundResult{}, r.interrupted(work, err)
	}
	defer unlock()

	result, err := r.resumeRound(work)
	switch {
	case err != nil:
		return session.RoundResult{}, r.interrupted(work, err)
	case result != nil:
		return r.done(work, result), nil
	}
	r.mayClear()
	if err := r.openSpender(work); err != nil {
		return session.RoundResult{}, r.interrupted(work, err)
	}
	r.relieve(work)
	defer r.relieve(work)
	if in.Supplied != "" {
		return r.takeSupplied(work)
	}
	if f := r.refused(); f != nil {
		return session.RoundResult{}, r.giveUp(work, *f)
	}
	for {
		result, err := r.once(work)
		if err != nil || result != nil {
			return *cmp.Or(result, &session.RoundResult{}), err
		}
	}
}

// openSpender has the round pay from the assignment's journal on.
func (r *round) openSpender(ctx context.Context) error {
	s := &spender{
		files: r.Files, sessions: r.Sessions, ledgers: r.Ledgers, agents: r.Agents, observer: observerOrNone(r.Observer), clock: r.Clock,
		team: r.session.team, key: r.session.key, id: r.in.AssignmentID, run: r.run(), agent: r.agent(), free: r.in.Free,
		retryStore: r.retryStore, setProgress: r.setProgress, round: r,
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	calls := s.journal.Calls()
	r.mu.Lock()
	r.spender = s
	write := r.settleEpochs(calls)
	r.thisRound().Epoch = r.epoch() // a record that only fences has none
	r.record.Usage = s.journal.Spent()
	progress := len(calls) - len(s.journal.Unsettled())
	if progress > r.log.Calls { // the lost worker had achieved something
		r.log.Calls, r.log.LostAtProgress = progress, r.log.Lost
	}
	lost := r.log.Lost
	r.mu.Unlock()
	if write || lost > 0 && progress > 0 {
		if err := r.writeRecord(ctx); err != nil {
			return err
		}
	}
	if len(calls) == 0 && !s.team.Capped() {
		return nil
	}
	return s.updateLedger(ctx)
}

// callEnded notes that the agent's process is gone.
func (r *round) callEnded() { r.changePlace(func(p *place) { p.busy = false }) }

// callBooked notes what the assignment has cost. An answer is progress.
func (r *round) callBooked(ctx context.Context, spent cost.Usage, answered bool) {
	r.mu.Lock()
	r.record.Usage = spent
	r.mu.Unlock()
	if answered {
		r.progressed(ctx, true)
	}
}

// once does the attempt when it may begin or continue. It returns nothing at all if the
// provider has failed, and the attempt is to continue after a wait.
func (r *round) once(ctx context.Context) (*session.RoundResult, error) {
	if err := r.rest(ctx); err != nil {
		return nil, r.interrupted(ctx, err)
	}
	if err := r.askBreaker(ctx); err != nil {
		return nil, r.interrupted(ctx, err)
	}
	defer r.keepLease(ctx)()
	started := r.Clock().UTC() // of an attempt that comes to nothing before it begins
	result, left, err := r.observedAttempt(ctx)
	if err != nil && ctx.Err() == nil {
		err = counted(err)
	}
	failure, failed := asFailure(err)
	switch {
	case failed && ctx.Err() == nil && r.waitsOut(*failure):
		return nil, r.interrupted(ctx, r.beginOutage(ctx, *failure, left))
	case err != nil:
		return nil, r.failed(ctx, left, err, started)
	}
	if err := r.succeed(ctx, result, left); err != nil {
		return nil, r.interrupted(ctx, err)
	}
	done := r.done(ctx, result)
	return &done, nil
}

// done hands a recorded result to the session, and tells the breaker.
func (r *round) done(ctx context.Context, result *session.RoundResult) session.RoundResult {
	out := *result
	out.Unreported = r.report(ctx, nil)
	return out
}

// noteStart notes durably that the agent, or what stands in for it, is about to be
// started: see [session.RoundLog.Started]. begun is when an earlier execution has begun the
// attempt.
func (r *round) noteStart(ctx context.Context, begun time.Time) error {
	goesOn := r.in.Supplied == "" && r.Agents.Offered(r.agent()).Conversation == spec.InDirectory
	r.changeLog(func(l *session.RoundLog) {
		l.Started, r.unnoted = true, true
		if l.AttemptAt = begun; begun.IsZero() {
			l.AttemptAt = r.Clock().UTC()
		}
		if goesOn {
			l.Begun = len(l.Attempts) + 1
		}
	})
	if err := r.writeRecord(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unnoted = false
	return nil
}

// noteEnd notes that what was started has ended, by an end that is neither a result nor
// an attempt's failure. Where the store cannot take that now, the heartbeat has it.
func (r *round) noteEnd(ctx context.Context) {
	if !r.log.Started || !r.recalled() {
		return
	}
	r.changeLog(func(l *session.RoundLog) { l.Started = false })
	if err := r.putRecord(); err != nil {
		activity.GetLogger(ctx).Warn("the execution's end is recorded only in its heartbeat", "error", err)
	}
}

// changeLog changes the round's log, for the next record and the next heartbeat.
func (r *round) changeLog(change func(*session.RoundLog)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.Revision++
	change(&r.log)
}

// refused tells why no attempt may start: the last one was counted before the
// worker died, or the worker dies of it. Budgets are asked call by call.
func (r *round) refused() *failures.Failure {
	if n := len(r.log.Attempts); n > 0 {
		if last := r.log.Attempts[n-1].Failure; n >= r.attempts() || !last.RetryAttempt() {
			return &last
		}
	}
	if in := r.log.Lost - r.log.LostAtProgress; r.LostLimit > 0 && in >= r.LostLimit {
		return failures.Failf(failures.WorkerLost, "the worker was lost %d times in a row during this work", in)
	}
	return nil
}

// failed notes a failed attempt and decides, from the failure table and the
// persona's threshold, whether the round continues.
func (r *round) failed(ctx context.Context, l left, err error, started time.Time) error {
	failure, ok := asFailure(err)
	if !ok || ctx.Err() != nil {
		return r.interrupted(ctx, err)
	}
	if r.canBeHelped(*failure) {
		return r.budgetSpent(ctx, *failure)
	}
	f := r.masked(*failure)
	r.count(ctx, f, session.AttemptReport{
		Agent: r.agent(), From: l.from, Usage: r.spender.spent(), Left: l.files, Diff: r.diff(ctx, l.files),
		StartedAt: started, Log: r.keepLog(ctx, l.outcome.Log),
	})
	if len(r.log.Attempts) >= r.attempts() || !f.RetryAttempt() {
		return r.giveUp(ctx, f)
	}
	if err := r.writeRecord(ctx); err != nil {
		return r.interrupted(ctx, err)
	}
	return recoverable(f, r.wait(f))
}

// count adds a failed attempt to the round's log.
func (r *round) count(ctx context.Context, f failures.Failure, report session.AttemptReport) {
	if !f.WaitedOut() {
		r.progressed(ctx, false)
	}
	r.changeLog(func(l *session.RoundLog) {
		report.Attempt, report.Failure, report.EndedAt = len(l.Attempts)+1, f, r.Clock().UTC()
		if !l.AttemptAt.IsZero() {
			report.StartedAt = l.AttemptAt
		}
		l.Attempts = append(l.Attempts, report)
		l.LostAtProgress, l.Started, l.Outage, l.AttemptAt = l.Lost, false, nil, time.Time{}
	})
	r.setProgress("") // what was said last is of the attempt that is over
}

// masked is a failure without secrets, and no longer than a record can hold.
func (r *round) masked(f failures.Failure) failures.Failure {
	f.Message = textfmt.Shorten(r.Agents.Mask(f.Message), session.MaxMessage)
	f.Output = textfmt.Tail(r.Agents.Mask(f.Output), session.MaxOutput)
	return f
}

// giveUp ends the round with the report of all its attempts.
func (r *round) giveUp(ctx context.Context, f failures.Failure) error {
	last := r.in.Round >= r.in.Rounds || !f.RetryRound()
	r.mu.Lock()
	this := r.thisRound()
	this.GaveUp, this.Last = true, last
	r.mu.Unlock()
	if err := r.writeRecord(ctx); err != nil {
		return r.interrupted(ctx, err)
	}
	observerOrNone(r.Observer).RoundEnded(r.agent(), f.Category)
	activity.GetLogger(ctx).Info("round given up", append([]any{"category", f.Category, "error", f.Message, "attempts", len(r.log.Attempts)}, spending(r.spender.spent())...)...)
	if last {
		observerOrNone(r.Observer).AssignmentEnded(r.session.team.Name, session.Failed)
	}
	report := RoundFailure{Failure: f, Attempts: r.log.Failures(), Lost: r.log.Lost, Total: r.spender.total()}
	report.Unreported = r.report(ctx, &f)
	return unrecoverable(report, nil)
}

// succeed records the result before Temporal hears of it.
func (r *round) succeed(ctx context.Context, result *session.RoundResult, l left) error {
	result.Summary = textfmt.Shorten(r.Agents.Mask(l.outcome.Summary), session.MaxSummary)
	result.Decisions = l.outcome.Decisions
	result.From = l.from
	result.Agent, result.Usage, result.Total = r.agent(), r.log.Usage().Add(r.spender.spent()), r.spender.total()
	result.Attempts, result.Lost = len(r.log.Attempts)+1, r.log.Lost
	result.Failures = r.log.Failures()
	result.StartedAt, result.EndedAt = r.log.AttemptAt, r.Clock().UTC()
	result.Log = r.keepLog(ctx, l.outcome.Log)
	if err := r.recordResult(ctx, result); err != nil {
		return err
	}
	observerOrNone(r.Observer).RoundEnded(r.agent(), "")
	failpoint.Here("recorded, not completed")
	if !r.in.Integrating && len(result.SendsBack) == 0 { // else it is done again, or was done before
		observerOrNone(r.Observer).AssignmentEnded(r.session.team.Name, session.Completed)
	}
	return nil
}

// recordResult has the result outlive everything.
func (r *round) recordResult(ctx context.Context, result *session.RoundResult) error {
	r.changeLog(func(l *session.RoundLog) {
		l.Started, l.Outage = false, nil
		this := r.thisRound()
		this.Result, this.Stale = result, len(result.SendsBack) > 0
	})
	if err := r.writeRecord(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	r.durable = true
	r.mu.Unlock()
	return nil
}

// interrupted turns the end of an execution that is no attempt's failure into
// what Temporal has to do about it.
func (r *round) interrupted(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	r.noteEnd(ctx)
	switch {
	case errors.Is(context.Cause(ctx), errHandedOver):
		return handedOver(errHandedOver)
	case errors.Is(context.Cause(ctx), activity.ErrActivityPaused), errors.Is(context.Cause(ctx), activity.ErrActivityReset):
		r.giveBack(ctx)
		return handedOver(context.Cause(ctx))
	case errors.Is(context.Cause(ctx), errReplaced):
		return handedOver(errReplaced)
	case errors.Is(context.Cause(ctx), session.ErrFenced):
		r.giveBack(ctx)
		return storeError(session.ErrFenced)
	case ctx.Err() != nil:
		r.giveBack(ctx)
		return r.cancelled()
	case isAnswer(err):
		return err
	}
	if isPermanent(err) {
		r.giveBack(ctx)
	}
	return storeError(err)
}

// recalled reports whether the round knows its record.
func (r *round) recalled() bool { return r.record.Schema != "" }

// attempts is the persona's threshold.
func (r *round) attempts() int { return r.session.team.Personas[r.in.Persona].Attempts }

// wait is the time until the next attempt: doubling from the team's initial
// wait to its maximum, unless a provider asked for a longer one.
func (r *round) wait(f failures.Failure) time.Duration {
	retry := r.session.team.Retry
	if f.RetryAfter > 0 {
		return min(f.RetryAfter, session.MaxRetryAfter).Std()
	}
	return spec.Backoff(retry.Initial, retry.Max, len(r.log.Attempts)).Std()
}

// key names the round's activity.
func (r *round) key() session.RoundKey {
	return session.RoundKey{Workflow: r.info.WorkflowExecution.ID, Run: r.run(), Activity: r.info.ActivityID}
}

// run is the id by which the rounds of the session's run are known.
func (r *round) run() string { return cmp.Or(r.in.Run, r.info.WorkflowExecution.RunID) }

// agent is the one that works: the persona's, unless the session has another do it.
func (r *round) agent() string {
	return cmp.Or(r.in.Agent, r.session.team.Personas[r.in.Persona].Agent)
}

// thisRound returns the record's entry for this activity, made if need be.
func (r *round) thisRound() *session.RoundRecord {
	key := r.key()
	if this := r.record.Round(key); this != nil {
		return this
	}
	r.record.Rounds = append(r.record.Rounds, session.RoundRecord{Key: key, Round: r.in.Round, Epoch: r.epoch(), Agent: r.in.Agent, Integrating: r.in.Integrating, Supplied: r.in.Supplied != ""})
	return &r.record.Rounds[len(r.record.Rounds)-1]
}

func (r *round) loadFeedback(ctx context.Context) (*failures.Failure, error) {
	data, err := r.Files.Blob(ctx, r.in.Feedback)
	if err != nil {
		return nil, fmt.Errorf("read feedback: %w", err)
	}
	return decodeFeedback(data)
}
