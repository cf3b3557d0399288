package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/failpoint"
	"github.com/maestro-hive/maestro/internal/team"
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
	// Days grants parts of daily budgets.
	Days Days
	// Observer hears of rounds, attempts and calls.
	Observer Observer
	Clock    Clock
	// LostLimit is the number of lost workers in a row, without progress
	// between, after which an assignment is given up as worker_lost.
	LostLimit int
	// Drain is how long a stopping worker lets an attempt go on before it
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
	in    RoundInput
	info  activity.Info
	scene scene
	// waited: another executor had the assignment when this one came, and the record
	// had the ends of found executions of the round then.
	waited bool
	found  int
	// book is what the round pays; nil until the round is recalled.
	book *book

	mu sync.Mutex
	// held is the assignment's lock; nil until this is its executor.
	held   team.Lock
	record team.Record
	// log is the last heartbeat's until the round is recalled.
	log      team.RoundLog
	progress string
	// durable: the record has the result, and nobody takes the round up again.
	durable bool
	// goesOnWith: the record has what an earlier activity did of the round.
	goesOnWith bool

	// mirroring orders what is written to the mirrored state; mirrored is what
	// this execution has last written, and over tells that its work has ended.
	mirroring sync.Mutex
	mirrored  team.State
	over      bool
}

// Run does one attempt of a round and decides what its end means for the round.
//
// It returns the round's result, once; a RecoverableError that has Temporal
// start the next attempt after a wait; or the non-retryable UnrecoverableError
// with a [RoundFailure], when the persona's attempts are spent or useless. A
// result is on disk in the assignment's record before it is returned, and an
// execution that finds it there returns it without working. Lost workers, a
// stopping worker and an unusable store use up no attempt. A round whose agent's
// breaker is open does not begin: the non-retryable BreakerOpen with a
// [TurnedAway] uses up nothing at all. Nor does the non-retryable BudgetSpent with
// a [BudgetStop], if the session can do something about its budget: the round
// goes on where it was in a later activity.
//
// A round that a person has supplied files for has no agent, no breaker and no
// attempts: the files are held to the assignment's contract, and the round ends with
// them as its result, or with a final failure in an UnrecoverableError.
func (rs *Rounds) Run(ctx context.Context, in RoundInput) (team.RoundResult, error) {
	r := &round{Rounds: rs, in: in, info: activity.GetInfo(ctx), log: heartbeatLog(ctx)}
	work, over := r.atWork(ctx)
	defer over()
	unlock, err := r.lock(work)
	if err != nil {
		return team.RoundResult{}, r.interrupted(work, err)
	}
	defer unlock()

	result, err := r.recall(work)
	switch {
	case err != nil:
		return team.RoundResult{}, r.interrupted(work, err)
	case result != nil:
		r.giveBackDay(work)
		return r.done(work, result), nil
	}
	defer r.giveBackDay(work)
	if err := r.openBook(work); err != nil {
		return team.RoundResult{}, r.interrupted(work, err)
	}
	if in.Supplied != "" {
		return r.takeSupplied(work)
	}
	if f := r.refused(); f != nil {
		return team.RoundResult{}, r.giveUp(work, *f)
	}
	if err := r.rest(work); err != nil {
		return team.RoundResult{}, r.interrupted(work, err)
	}
	if err := r.askBreaker(work); err != nil {
		return team.RoundResult{}, r.interrupted(work, err)
	}
	defer r.keepLease(work)()
	defer r.mirrorWork(work)()
	started := r.Clock().UTC()
	result, left, err := r.observedAttempt(work)
	if err != nil {
		return team.RoundResult{}, r.failed(work, left, err, started)
	}
	if err := r.succeed(work, result, left, started); err != nil {
		return team.RoundResult{}, r.interrupted(work, err)
	}
	return r.done(work, result), nil
}

// done hands a recorded result to the session, and tells the breaker.
func (r *round) done(ctx context.Context, result *team.RoundResult) team.RoundResult {
	out := *result
	out.Unreported = r.report(ctx, nil)
	return out
}

// markBegun notes durably that the attempt begins, for an agent that can go on in
// the middle of one.
func (r *round) markBegun(ctx context.Context) error {
	if r.Agents.Offered(r.agent()).Conversation != team.InDirectory {
		return nil
	}
	r.mu.Lock()
	n := len(r.log.Attempts) + 1
	begun := r.log.Begun == n
	r.log.Begun = n
	r.mu.Unlock()
	if begun { // and was cut off
		return nil
	}
	return r.writeRecord(ctx)
}

// refused tells why no attempt may start: the last one was counted before the
// worker died, or the worker dies of it. Budgets are asked call by call.
func (r *round) refused() *team.Failure {
	if n := len(r.log.Attempts); n > 0 {
		if last := r.log.Attempts[n-1].Failure; n >= r.attempts() || !last.RetryAttempt() {
			return &last
		}
	}
	if in := r.log.Lost - r.log.LostAtProgress; r.LostLimit > 0 && in >= r.LostLimit {
		return team.Failf(team.WorkerLost, "the worker was lost %d times in a row during this work", in)
	}
	return nil
}

// failed notes a failed attempt and decides, from the failure table and the
// persona's threshold, whether the round goes on.
func (r *round) failed(ctx context.Context, l left, err error, started time.Time) error {
	failure, ok := asFailure(err)
	if !ok || ctx.Err() != nil {
		return r.interrupted(ctx, err)
	}
	if r.canBeHelped(*failure) {
		return r.budgetSpent(ctx, *failure)
	}
	f := *failure
	f.Message = team.Shorten(r.Agents.Mask(f.Message), team.MaxMessage)
	f.Output = team.Tail(r.Agents.Mask(f.Output), team.MaxOutput)
	report := team.AttemptReport{
		Attempt: len(r.log.Attempts) + 1, Failure: f, Agent: r.agent(), From: l.from, Usage: r.book.spent(),
		Left: l.files, Diff: r.diff(ctx, l.files),
		StartedAt: started, EndedAt: r.Clock().UTC(), Log: r.keepLog(ctx, l.outcome.Log),
	}
	r.mu.Lock()
	r.log.Attempts = append(r.log.Attempts, report)
	r.log.LostAtProgress = r.log.Lost
	r.progress = "" // it is of the attempt that is over
	spent := len(r.log.Attempts) >= r.attempts()
	r.mu.Unlock()
	if spent || !f.RetryAttempt() {
		return r.giveUp(ctx, f)
	}
	if err := r.writeRecord(ctx); err != nil {
		return r.interrupted(ctx, err)
	}
	r.mirror(ctx, team.Waiting)
	return recoverable(f, r.wait(f))
}

// giveUp ends the round with the report of all its attempts.
func (r *round) giveUp(ctx context.Context, f team.Failure) error {
	r.mu.Lock()
	r.thisRound().GaveUp = true
	r.mu.Unlock()
	if err := r.writeRecord(ctx); err != nil {
		return r.interrupted(ctx, err)
	}
	observed(r.Observer).RoundEnded(r.agent(), f.Category)
	activity.GetLogger(ctx).Info("round given up", append([]any{"category", f.Category, "error", f.Message, "attempts", len(r.log.Attempts)}, spending(r.book.spent())...)...)
	if r.in.Round < r.in.Rounds && f.RetryRound() {
		r.mirror(ctx, team.Waiting)
	} else {
		observed(r.Observer).AssignmentEnded(r.scene.team.Name, team.Failed)
		r.mirror(ctx, team.Failed)
	}
	report := RoundFailure{Failure: f, Attempts: r.log.Failures(), Lost: r.log.Lost, Total: r.book.total()}
	report.Unreported = r.report(ctx, &f)
	return unrecoverable(report, nil)
}

// succeed records the result before Temporal hears of it.
func (r *round) succeed(ctx context.Context, result *team.RoundResult, l left, started time.Time) error {
	result.Summary = team.Shorten(r.Agents.Mask(l.outcome.Summary), team.MaxSummary)
	result.Decisions = l.outcome.Decisions
	result.From = l.from
	result.Agent, result.Usage, result.Total = r.agent(), r.log.Usage().Add(r.book.spent()), r.book.total()
	result.Attempts, result.Lost = len(r.log.Attempts)+1, r.log.Lost
	result.Failures = r.log.Failures()
	result.StartedAt, result.EndedAt = started, r.Clock().UTC()
	result.Log = r.keepLog(ctx, l.outcome.Log)
	if err := r.recordResult(ctx, result); err != nil {
		return err
	}
	observed(r.Observer).RoundEnded(r.agent(), "")
	failpoint.Here("recorded, not completed")
	if len(result.SendsBack) > 0 { // it is done again after what it builds on
		r.mirror(ctx, team.Waiting)
		return nil
	}
	if !r.in.Integrating {
		observed(r.Observer).AssignmentEnded(r.scene.team.Name, team.Completed)
	}
	r.mirror(ctx, team.Completed)
	return nil
}

// recordResult has the result outlive everything.
func (r *round) recordResult(ctx context.Context, result *team.RoundResult) error {
	r.mu.Lock()
	this := r.thisRound()
	this.Result, this.Stale = result, len(result.SendsBack) > 0
	r.mu.Unlock()
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
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(ctx), errHandedOver):
		return r.handOver(ctx)
	case errors.Is(context.Cause(ctx), activity.ErrActivityPaused), errors.Is(context.Cause(ctx), activity.ErrActivityReset):
		r.giveBack(ctx)
		return r.handOver(ctx)
	case errors.Is(context.Cause(ctx), errReplaced):
		return handedOver(errReplaced)
	case errors.Is(context.Cause(ctx), team.ErrFenced):
		r.giveBack(ctx)
		return storeError(team.ErrFenced)
	case ctx.Err() != nil:
		r.giveBack(ctx)
		return r.cancelled()
	case isAnswer(err):
		return err
	}
	if lasting(err) {
		r.giveBack(ctx)
	}
	return storeError(err)
}

// handOver leaves the round to the execution that Temporal starts next. No worker is
// lost by that, and no attempt has failed.
func (r *round) handOver(ctx context.Context) error {
	r.noteHandOver(ctx)
	return handedOver(context.Cause(ctx))
}

// noteHandOver counts an execution that ends for no reason of the work's.
func (r *round) noteHandOver(ctx context.Context) {
	r.mu.Lock()
	r.log.HandedOver++
	r.mu.Unlock()
	if r.recalled() { // so there is a record to keep it
		if err := r.putRecord(); err != nil {
			activity.GetLogger(ctx).Warn("the hand-over is only in the heartbeat", "error", err)
		}
	}
}

// recalled tells whether the round knows its record.
func (r *round) recalled() bool { return r.record.Schema != "" }

// attempts is the persona's threshold.
func (r *round) attempts() int { return r.scene.team.Personas[r.in.Persona].Attempts }

// wait is the time until the next attempt: doubling from the team's initial
// wait to its maximum, unless a provider asked for a longer one.
func (r *round) wait(f team.Failure) time.Duration {
	retry := r.scene.team.Retry
	if f.RetryAfter > 0 {
		return f.RetryAfter.Std()
	}
	return team.Backoff(retry.Initial, retry.Max, len(r.log.Attempts)).Std()
}

// key names the round's activity.
func (r *round) key() team.RoundKey {
	return team.RoundKey{Workflow: r.info.WorkflowExecution.ID, Run: r.info.WorkflowExecution.RunID, Activity: r.info.ActivityID}
}

// agent is the one that works: the persona's, unless the session has another do it.
func (r *round) agent() string { return cmp.Or(r.in.Agent, r.scene.team.Personas[r.in.Persona].Agent) }

// thisRound returns the record's entry for this activity, made if need be.
func (r *round) thisRound() *team.RoundRecord {
	key := r.key()
	if this := r.record.Round(key); this != nil {
		return this
	}
	r.record.Rounds = append(r.record.Rounds, team.RoundRecord{Key: key, Round: r.in.Round, Epoch: r.epoch(), Integrating: r.in.Integrating, Supplied: r.in.Supplied != ""})
	return &r.record.Rounds[len(r.record.Rounds)-1]
}

func (r *round) loadFeedback(ctx context.Context) (*team.Failure, error) {
	data, err := r.Files.Blob(ctx, r.in.Feedback)
	if err != nil {
		return nil, fmt.Errorf("read feedback: %w", err)
	}
	return decodeFeedback(data)
}
