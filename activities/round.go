package activities

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Rounds does the rounds of assignments on a worker that offers their agent.
type Rounds struct {
	Files    Files
	WorkDirs WorkDirs
	Sessions Sessions
	State    State
	Agents   Agents
	// Breakers decides whether rounds may begin, and counts how they end; nil:
	// every round may.
	Breakers Breakers
	// Heartbeats reports rounds to Temporal; nil: none is reported.
	Heartbeats Heartbeats
	// Observer counts rounds, attempts and calls.
	Observer Observer
	// Signals reports outages to workflows while their rounds continue; nil: outages are
	// reported at the end of rounds only.
	Signals Signals
	// HoldSlot is for how long an outage keeps the agent's slot; zero: a minute. Random
	// is for the jitter of waits for a provider.
	HoldSlot time.Duration
	Random   Random
	Clock    Clock
	// LostLimit is the number of lost workers in a row, without progress
	// between, after which an assignment fails with worker_lost.
	LostLimit int
	// Drain is how long a stopping worker lets an attempt continue before it
	// hands it over.
	Drain time.Duration
}

// maxShortWait is the longest wait between attempts for which a round keeps its slot.
const maxShortWait = 5 * time.Second

// round is an execution of a round's activity: Temporal starts one for each attempt, and
// after a lost worker.
type round struct {
	ports   *Rounds
	in      RoundInput
	session sessionContext
	// agent is the agent of the round: the persona's, or a substitute.
	agent   string
	exec    *execution
	log     *roundLog
	breaker *agentBreaker
	outage  *outageWait
	// spender books the round's calls; nil until the round is open.
	spender *spender
}

// Run does one attempt of a round and decides how the round continues.
//
// It returns the round's result, once; a RecoverableError that has Temporal
// start the next attempt after a wait; or the non-retryable UnrecoverableError
// with a [RoundFailure], when the persona's attempts are used up or useless. A
// result is in the database before it is returned, and an
// execution that finds it there returns it without working. Lost workers, a
// stopping worker and an unusable store use up no attempt.
//
// These non-retryable errors use up nothing. A later activity continues the round:
//
//	error           detail        meaning
//	BreakerOpen     [BreakerStop]  the breaker of the round's agent is open
//	ProviderOutage  [OutageStop]  the provider has failed for longer than the team's patience
//	BudgetSpent     [BudgetStop]  a budget is spent that the session can raise
//
// A round that a person has supplied files for has no agent, no breaker and no
// attempts: the files are held to the assignment's contract, and the round ends with
// them as its result, or with a final failure in an UnrecoverableError.
func (rs *Rounds) Run(ctx context.Context, in RoundInput) (session.RoundResult, error) {
	e := rs.newExecution(ctx, in.AssignmentID)
	defer e.dir.releaseLayers()
	defer e.background.Wait()
	log := newRoundLog(e, rs.State, in)
	var paying atomic.Pointer[spender]
	work, end := e.start(ctx, rs.Heartbeats, func() Heartbeat {
		beat := Heartbeat{Attempt: len(log.get().Attempts) + 1, Progress: e.progressNow(), Waits: e.waits.Waiting()}
		if s := paying.Load(); s != nil {
			s.describe(&beat)
		}
		return beat
	})
	defer end()
	unlock, err := e.acquireLock(work)
	if err != nil {
		return session.RoundResult{}, executionEnd(work, err)
	}
	defer unlock()
	r, result, err := rs.load(work, e, log, in)
	switch {
	case err != nil:
		return session.RoundResult{}, executionEnd(work, err)
	case result != nil:
		return r.done(work, result), nil
	}
	e.dir.openIfLow()
	if r.spender, err = r.openSpender(work); err != nil {
		return session.RoundResult{}, r.interrupted(work, err)
	}
	if in.Supplied == "" {
		paying.Store(r.spender)
	}
	e.dir.freeDisk(work)
	defer e.dir.freeDisk(work)
	if in.Supplied != "" {
		return r.takeSupplied(work)
	}
	if f := r.refusal(); f != nil {
		return session.RoundResult{}, r.giveUp(work, *f)
	}
	for {
		result, err := r.runOnce(work)
		if err != nil || result != nil {
			return *cmp.Or(result, &session.RoundResult{}), err
		}
	}
}

// runOnce does the attempt when it may begin or continue. It returns nil and nil if the
// provider has failed, and the attempt must continue after a wait.
func (r *round) runOnce(ctx context.Context) (*session.RoundResult, error) {
	if err := r.waitBeforeAttempt(ctx); err != nil {
		return nil, r.interrupted(ctx, err)
	}
	open, err := r.breaker.allow(ctx)
	if open != nil {
		err = r.outage.breakerOpen(ctx, open)
	}
	if err != nil {
		return nil, r.interrupted(ctx, err)
	}
	defer r.breaker.keepLease(ctx)()
	started := r.ports.Clock().UTC() // of an attempt that fails before it begins
	attempt := r.nextAttempt()
	result, end, err := r.runObserved(ctx, attempt)
	attempt.storeConversation(ctx, end)
	if !end.elsewhere {
		defer attempt.noteConversation(end.dir)
	}
	if err != nil && ctx.Err() == nil {
		err = asUnknown(err)
	}
	failure, failed := asFailure(err)
	switch {
	case failed && ctx.Err() == nil && r.outage.waitsOut(*failure):
		return nil, r.interrupted(ctx, r.outage.begin(ctx, maskedFailure(r.ports.Agents, *failure), end.dir.Tree != "", end.files))
	case err != nil:
		return nil, r.failed(ctx, end, err, started)
	}
	if err := r.succeed(ctx, result, end); err != nil {
		return nil, r.interrupted(ctx, err)
	}
	done := r.done(ctx, result)
	return &done, nil
}

// waitBeforeAttempt enforces the wait between two attempts. Usually Temporal has already waited.
// It has not if the execution of the last attempt was timed out or lost before it reported its
// end. Then a short wait happens here; for a long one it returns a RecoverableError, because the
// round holds a slot of its agent.
func (r *round) waitBeforeAttempt(ctx context.Context) error {
	if o := r.log.outage(); o != nil {
		over, err := r.outage.wait(ctx, *o)
		if over {
			return r.patienceOver(ctx, *o)
		}
		return err
	}
	log := r.log.get()
	n := len(log.Attempts)
	if n == 0 || r.log.found == earlierActivity || log.Attempts[n-1].Agent != r.agent {
		return nil // or the session has decided when it continues
	}
	last := log.Attempts[n-1]
	wait := r.wait(last.Failure, n)
	left := min(wait, last.EndedAt.Add(wait).Sub(r.ports.Clock())) // clocks differ
	switch {
	case left <= 0:
		return nil
	case left > maxShortWait:
		return recoverable(last.Failure, left)
	}
	return sleep(ctx, left)
}

// failed notes a failed attempt and decides on retry level 1, from the failure table and
// the persona's threshold: another attempt after a wait, or the end of the round.
func (r *round) failed(ctx context.Context, end attemptEnd, err error, started time.Time) error {
	failure, ok := asFailure(err)
	if !ok || ctx.Err() != nil {
		return r.interrupted(ctx, err)
	}
	if r.canRaiseBudget(*failure) {
		return r.budgetSpent(ctx, *failure)
	}
	f := maskedFailure(r.ports.Agents, *failure)
	attempts := r.countAttempt(ctx, f, session.AttemptReport{
		Agent: r.agent, From: end.from, Usage: r.spender.spent(), Left: end.files, Diff: r.diff(ctx, end.files),
		LeftOut: end.outcome.LeftOut, StartedAt: started, Log: storeLog(ctx, r.ports.Files, r.ports.Agents, end.outcome.Log),
	})
	if attempts >= r.maxAttempts() || !f.RetryAttempt() {
		return r.giveUp(ctx, f)
	}
	if err := r.log.write(ctx); err != nil {
		return r.interrupted(ctx, err)
	}
	return recoverable(f, r.wait(f, attempts))
}

// refusal returns why no attempt may start. It returns nil if one may. The last attempt may have been counted
// before its worker died, or the work may end its workers. Budgets are checked for each call.
func (r *round) refusal() *failures.Failure {
	log := r.log.get()
	if n := len(log.Attempts); n > 0 {
		if last := log.Attempts[n-1].Failure; n >= r.maxAttempts() || !last.RetryAttempt() {
			return &last
		}
	}
	if in := log.Lost - log.LostAtProgress; r.ports.LostLimit > 0 && in >= r.ports.LostLimit {
		return failures.Failf(failures.WorkerLost, "the worker was lost %d times in a row during this work", in)
	}
	return nil
}

// maxAttempts returns the persona's maximum number of attempts in a round.
func (r *round) maxAttempts() int { return r.session.team.Personas[r.in.Persona].Attempts }

// wait returns the time until the next attempt. It is what the provider stated, up to [session.MaxRetryAfter], else it doubles
// with each attempt from the team's initial wait to its maximum.
func (r *round) wait(f failures.Failure, attempts int) time.Duration {
	retry := r.session.team.Retry
	if f.RetryAfter > 0 {
		return min(f.RetryAfter, session.MaxRetryAfter).Std()
	}
	return spec.Backoff(retry.Initial, retry.Max, attempts).Std()
}

// countAttempt adds a failed attempt to the round's log, and returns their number.
func (r *round) countAttempt(ctx context.Context, f failures.Failure, report session.AttemptReport) (attempts int) {
	if !f.WaitedOut() {
		r.outage.end(ctx, false)
	}
	r.log.change(func(l *session.RoundLog) {
		attempts = len(l.Attempts) + 1
		report.Attempt, report.Failure, report.EndedAt = attempts, f, r.ports.Clock().UTC()
		l.Continue(report.EndedAt)
		if !l.AttemptAt.IsZero() {
			report.StartedAt = l.AttemptAt
		}
		l.Attempts = append(l.Attempts, report)
		l.LostAtProgress, l.Started, l.Outage, l.AttemptAt, l.Ended = l.Lost, false, nil, time.Time{}, nil
	})
	r.exec.setProgress("") // the last progress is of the attempt that is over
	return attempts
}

// patienceOver ends the round or, if the session notifies people, only the activity: then a
// later activity continues with the same attempt.
func (r *round) patienceOver(ctx context.Context, o session.Outage) error {
	if r.session.team.Retry.OnOutage == spec.OutageFail {
		r.spender.begin(r.log.attemptKey(), nil)
		r.countAttempt(ctx, o.Failure, session.AttemptReport{
			Agent: o.Agent, Usage: r.spender.spent(), Left: o.Files, Diff: r.diff(ctx, o.Files), StartedAt: o.Since,
		})
		return r.giveUp(ctx, o.Failure)
	}
	r.breaker.giveBack(ctx)
	if err := r.log.write(ctx); err != nil {
		return err
	}
	return providerOutage(o, r.report())
}
