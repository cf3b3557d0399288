package activities

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// Rounds does the rounds of assignments on a worker that offers their agent.
type Rounds struct {
	Files    Files
	WorkDirs WorkDirs
	Sessions Sessions
	Ledgers  Ledgers
	Agents   Agents
	// Breakers decides whether rounds may begin, and counts how they end; nil:
	// every round may.
	Breakers Breakers
	// Heartbeats reports rounds to Temporal; nil: none is reported.
	Heartbeats Heartbeats
	// Observer counts rounds, attempts and calls.
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

// restMost is the longest wait between attempts that a round makes up for itself.
const restMost = 5 * time.Second

// round is an execution of a round's activity: Temporal starts one for each attempt, and
// after a lost worker.
type round struct {
	ports   *Rounds
	in      RoundInput
	session sessionContext
	// agent is the one that works: the persona's, unless the session has another do it.
	agent   string
	exec    *execution
	log     *roundLog
	breaker *agentBreaker
	outage  *outageWait
	// spender is what the round pays from; nil until the journal is open.
	spender *spender
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
	e := rs.newExecution(ctx, in.AssignmentID, in.Incarnation)
	defer e.background.Wait()
	log := newRoundLog(ctx, e, in)
	var paying atomic.Pointer[spender]
	work, end := e.start(ctx, rs.Heartbeats, func() Heartbeat {
		beat := log.heartbeat()
		beat.Progress = e.progressNow()
		if s := paying.Load(); s != nil {
			s.describe(&beat)
		}
		return beat
	}, log.isRecorded)
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
	e.dir.relieve(work)
	defer e.dir.relieve(work)
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

// once does the attempt when it may begin or continue. It returns nothing at all if the
// provider has failed, and the attempt is to continue after a wait.
func (r *round) once(ctx context.Context) (*session.RoundResult, error) {
	if err := r.rest(ctx); err != nil {
		return nil, r.interrupted(ctx, err)
	}
	open, err := r.breaker.allow(ctx)
	if open != nil {
		err = r.outage.turnedAway(ctx, open)
	}
	if err != nil {
		return nil, r.interrupted(ctx, err)
	}
	defer r.breaker.keepLease(ctx)()
	started := r.ports.Clock().UTC() // of an attempt that fails before it begins
	attempt := r.attempt()
	result, end, err := r.observed(ctx, attempt)
	attempt.storeConversation(ctx, end)
	defer attempt.noteConversation(end.dir)
	if err != nil && ctx.Err() == nil {
		err = counted(err)
	}
	failure, failed := asFailure(err)
	switch {
	case failed && ctx.Err() == nil && r.outage.waitsOut(*failure):
		return nil, r.interrupted(ctx, r.outage.begin(ctx, masked(r.ports.Agents, *failure), end.dir.Tree != "", end.files))
	case err != nil:
		return nil, r.failed(ctx, end, err, started)
	}
	if err := r.succeed(ctx, result, end); err != nil {
		return nil, r.interrupted(ctx, err)
	}
	done := r.done(ctx, result)
	return &done, nil
}

// rest has the next attempt begin no earlier than it may. Temporal sees to that where it
// knows how the one before ended; where it does not, because that one's execution was
// given up or lost before, a short wait is made up for here. A long one is returned to
// Temporal again, in a RecoverableError: the round holds a slot of its agent.
func (r *round) rest(ctx context.Context) error {
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
	case left > restMost:
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
	if r.canBeHelped(*failure) {
		return r.budgetSpent(ctx, *failure)
	}
	f := masked(r.ports.Agents, *failure)
	attempts := r.count(ctx, f, session.AttemptReport{
		Agent: r.agent, From: end.from, Usage: r.spender.spent(), Left: end.files, Diff: r.diff(ctx, end.files),
		StartedAt: started, Log: keepLog(ctx, r.ports.Files, r.ports.Agents, end.outcome.Log),
	})
	if attempts >= r.attempts() || !f.RetryAttempt() {
		return r.giveUp(ctx, f)
	}
	if err := r.log.write(ctx); err != nil {
		return r.interrupted(ctx, err)
	}
	return recoverable(f, r.wait(f, attempts))
}

// refused is why no attempt may start; nil: one may: the last one was counted before the
// worker died, or the worker dies of it. Budgets are looked at for each call.
func (r *round) refused() *failures.Failure {
	log := r.log.get()
	if n := len(log.Attempts); n > 0 {
		if last := log.Attempts[n-1].Failure; n >= r.attempts() || !last.RetryAttempt() {
			return &last
		}
	}
	if in := log.Lost - log.LostAtProgress; r.ports.LostLimit > 0 && in >= r.ports.LostLimit {
		return failures.Failf(failures.WorkerLost, "the worker was lost %d times in a row during this work", in)
	}
	return nil
}

// attempts is the persona's threshold.
func (r *round) attempts() int { return r.session.team.Personas[r.in.Persona].Attempts }

// wait is the time until the next attempt after so many: doubling from the team's initial
// wait to its maximum, unless a provider stated a longer one.
func (r *round) wait(f failures.Failure, attempts int) time.Duration {
	retry := r.session.team.Retry
	if f.RetryAfter > 0 {
		return min(f.RetryAfter, session.MaxRetryAfter).Std()
	}
	return spec.Backoff(retry.Initial, retry.Max, attempts).Std()
}

// count adds a failed attempt to the round's log, and returns how many there are.
func (r *round) count(ctx context.Context, f failures.Failure, report session.AttemptReport) (attempts int) {
	if !f.WaitedOut() {
		r.outage.end(ctx, false)
	}
	r.log.change(func(l *session.RoundLog) {
		attempts = len(l.Attempts) + 1
		report.Attempt, report.Failure, report.EndedAt = attempts, f, r.ports.Clock().UTC()
		if !l.AttemptAt.IsZero() {
			report.StartedAt = l.AttemptAt
		}
		l.Attempts = append(l.Attempts, report)
		l.LostAtProgress, l.Started, l.Outage, l.AttemptAt = l.Lost, false, nil, time.Time{}
	})
	r.exec.setProgress("") // the last progress is of the attempt that is over
	return attempts
}

// patienceOver ends the round, or only the activity: then people are notified, and a
// later activity continues with the same attempt.
func (r *round) patienceOver(ctx context.Context, o session.Outage) error {
	if r.session.team.Retry.OnOutage == spec.OutageFail {
		r.spender.begin(r.log.attemptKey(), nil)
		r.count(ctx, o.Failure, session.AttemptReport{
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
