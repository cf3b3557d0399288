package activities

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/logs"
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
	*Rounds
	in      RoundInput
	session sessionContext
	// agent is the agent of the round: the persona's, or a substitute.
	agent   string
	exec    *execution
	rows    *roundRows
	breaker *agentBreaker
	checks  checks
	// spender books the round's calls; nil until the round is open. Heartbeats read it as paying.
	spender *spender
	paying  atomic.Pointer[spender]
}

// Run does one attempt of a round and decides how the round continues.
//
// It returns the round's result, once. A result is in the database before it is returned, and an execution that finds it there
// returns it without working. Otherwise it returns one of these errors:
//
//	error               made by       meaning                                           what goes on
//	RecoverableError    failed        the attempt has failed, and is counted            Temporal starts the next one after a wait
//	UnrecoverableError  giveUp        attempts are used up or useless: [RoundFailure]   the workflow: afterFailure
//	BreakerOpen         breakerOpen   the agent's breaker is open: [BreakerStop]        the workflow waits: waitAfter
//	ProviderOutage      patienceOver  the team's patience is over: [OutageStop]         the workflow waits: waitAfter
//	BudgetSpent         budgetSpent   a budget is spent that can be raised: [BudgetStop]  the workflow waits: waitAfter
//	HandedOver          executionEnd  the worker stops, or was replaced                 Temporal starts it again at once
//	StoreUnusable       storeError    the store cannot be used                          Temporal starts it again after a wait
//	a cancelled one     executionEnd  the session or the phase was stopped              nothing
//
// Only the first two use up an attempt or the round.
//
// A round that a person has supplied files for has no agent, no breaker and no
// attempts: the files are held to the assignment's contract, and the round ends with
// them as its result, or with a final failure in an UnrecoverableError.
func (rs *Rounds) Run(ctx context.Context, in RoundInput) (result session.RoundResult, err error) {
	e := rs.newExecution(ctx, in.AssignmentID)
	defer e.dir.releaseLayers()
	defer e.background.Wait()
	r := &round{Rounds: rs, in: in, exec: e, rows: newRoundRows(e, rs.State, in)}
	work, end := e.keepAlive(ctx, rs.Heartbeats, r.heartbeat)
	defer end()
	unlock, err := e.acquireLock(work)
	if err != nil {
		return result, executionEnd(work, err)
	}
	defer unlock()
	recorded, err := r.load(work)
	switch {
	case err != nil:
		return result, executionEnd(work, err)
	case recorded != nil:
		return r.done(work, *recorded)
	}
	e.dir.openIfLow()
	if err := r.openSpender(work); err != nil {
		return result, r.interrupted(work, err)
	}
	e.dir.freeDisk(work)
	defer e.dir.freeDisk(work)
	if in.Supplied != "" {
		return r.takeSupplied(work)
	}
	if f := r.refusal(); f != nil {
		return result, r.giveUp(work, *f)
	}
	for again := true; again; {
		result, again, err = r.tryAttempt(work)
	}
	return result, err
}

// load reads the session and the state of earlier executions of the round. It returns the
// round's result if the rows have one.
func (r *round) load(ctx context.Context) (recorded *session.RoundResult, err error) {
	e := r.exec
	r.session, err = fromStore(ctx, e.retryStore, func() (s sessionContext, err error) {
		if r.in.Beside, err = r.in.Beside.load(ctx, r.Files); err != nil {
			return s, err
		}
		return loadSessionContext(ctx, r.Sessions, r.in.Head)
	})
	if err != nil {
		return nil, err
	}
	r.agent = cmp.Or(r.in.Agent, r.session.team.Personas[r.in.Persona].Agent)
	if recorded, err = r.rows.load(ctx, r.session, r.agent, r.Clock().UTC()); err != nil {
		return nil, err
	}
	r.checks = checks{e, r.Files, r.session}
	r.breaker = &agentBreaker{
		port: r.Breakers, settings: r.Agents.Breaker(r.agent), rows: r.rows, retryStore: e.retryStore, clock: r.Clock,
		perCall:  len(r.Agents.Offered(r.agent).Gateway) > 0,
		activity: activityKey(e.info), holder: cmp.Or(r.in.Lease.Holder, activityKey(e.info)),
	}
	e.dir.cleared = r.filesCleared
	return recorded, nil
}

// openSpender reads the assignment's calls for those of the round.
func (r *round) openSpender(ctx context.Context) error {
	r.spender = &spender{round: r}
	calls, err := r.spender.load(ctx, lostCalls{r.State, r.Sessions, r.Agents, r.WorkDirs, r.rows.endedCost()})
	r.paying.Store(r.spender)
	if err != nil {
		return err
	}
	if err := r.rows.loadCalls(ctx, calls); err != nil {
		return err
	}
	return r.spender.warn(ctx)
}

// heartbeat is what Temporal is told while the execution lasts.
func (r *round) heartbeat() Heartbeat {
	beat := Heartbeat{Attempt: len(r.rows.snapshot().Attempts) + 1, Progress: r.exec.progressNow(), Waits: r.exec.waits.Waiting()}
	if s := r.paying.Load(); s != nil && r.in.Supplied == "" {
		beat.Agent, beat.Spent = r.agent, s.spent()
	}
	return beat
}

// tryAttempt does the attempt when it may begin or continue. again: the provider has failed, and the attempt continues after
// a wait.
func (r *round) tryAttempt(ctx context.Context) (result session.RoundResult, again bool, err error) {
	if err := r.waitBeforeAttempt(ctx); err != nil {
		return result, false, r.interrupted(ctx, err)
	}
	open, err := r.breaker.allow(ctx)
	if open != nil {
		err = r.breakerOpen(ctx, open)
	}
	if err != nil {
		return result, false, r.interrupted(ctx, err)
	}
	defer r.breaker.keepLease(ctx)()
	started := r.Clock().UTC() // of an attempt that fails before it begins
	attempt := &attempt{round: r}
	work, end, err := r.runAttempt(ctx, attempt)
	attempt.storeConversation(ctx, end)
	if !end.elsewhere {
		defer attempt.noteConversation(end.dir)
	}
	if err != nil && ctx.Err() == nil {
		err = asUnknown(err)
	}
	failure, failed := asFailure(err)
	switch {
	case failed && ctx.Err() == nil && r.waitsOut(*failure):
		err := r.beginOutage(ctx, maskedFailure(r.Agents, *failure), end.dir.Tree != "", end.files)
		return result, err == nil, r.interrupted(ctx, err)
	case err != nil:
		return result, false, r.failed(ctx, end, err, started)
	}
	if err := r.succeed(ctx, work, end); err != nil {
		return result, false, r.interrupted(ctx, err)
	}
	result, err = r.done(ctx, *work)
	return result, false, err
}

// runAttempt does the attempt, and reports it to the observer and the log.
func (r *round) runAttempt(ctx context.Context, a *attempt) (*session.RoundResult, attemptEnd, error) {
	attempt, began := len(r.rows.snapshot().Attempts)+1, r.Clock()
	ctx = logs.With(ctx, logs.Attempt, attempt)
	activity.GetLogger(ctx).Info("attempt started")
	watched, ended := r.exec.observer.AttemptBegun(ctx, AttemptInfo{
		Team: r.session.team.Name, Session: r.session.key.Session, AssignmentID: r.in.AssignmentID,
		Agent: r.agent, Round: r.in.Round, Attempt: attempt,
	})
	result, end, err := a.run(watched)
	failure, failed := asFailure(err)
	var interrupted error
	switch {
	case err == nil:
		ended(AttemptOutcome{})
	case failed && ctx.Err() == nil && !r.canRaiseBudget(*failure) && !r.waitsOut(*failure):
		ended(AttemptOutcome{Category: failure.Category})
	default:
		ended(AttemptOutcome{Interrupted: true})
		interrupted = cmp.Or(context.Cause(ctx), err)
	}
	logAttempt(ctx, failure, interrupted, r.Clock().Sub(began), r.spender.spent())
	return result, end, err
}

// succeed records the result before it is returned to Temporal.
func (r *round) succeed(ctx context.Context, result *session.RoundResult, end attemptEnd) error {
	log := r.rows.snapshot()
	result.Summary = textfmt.Shorten(r.Agents.Mask(end.outcome.Summary), session.MaxSummary)
	result.LeftOut = end.outcome.LeftOut
	result.Decisions, result.Kept = end.outcome.Decisions, end.outcome.Kept
	result.From = end.from
	result.Agent, result.Usage, result.RoundReport = r.agent, log.Usage().Add(r.spender.spent()), r.report()
	result.Attempts, result.Failures = len(log.Attempts)+1, log.Failures()
	result.StartedAt, result.EndedAt = log.AttemptAt, r.Clock().UTC()
	result.Log = storeLog(ctx, r.Files, r.Agents, end.outcome.Log)
	if err := r.rows.recordResult(ctx, result); err != nil {
		return err
	}
	r.exec.observer.RoundEnded(r.agent, "")
	if !r.in.Integrating && len(result.SendsBack) == 0 { // else it is done again, or was done before
		r.exec.observer.AssignmentEnded(r.session.team.Name, session.Completed)
	}
	return nil
}

// done returns a recorded result for the session, and reports to the breaker.
func (r *round) done(ctx context.Context, result session.RoundResult) (session.RoundResult, error) {
	return result, r.interrupted(ctx, r.breaker.reportEnd(ctx, nil))
}

// report is what every end of the activity reports.
func (r *round) report() session.RoundReport {
	return session.RoundReport{Lost: r.rows.snapshot().Lost, Total: r.spender.spentInAll()}
}

// interrupted ends an execution because of an error that is not a failure of the attempt.
func (r *round) interrupted(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	r.rows.noteInterrupted(ctx)
	if !resumesAfter(ctx, err) {
		r.breaker.giveBack(ctx)
	}
	if r.spender == nil {
		return executionEnd(ctx, err)
	}
	return executionEnd(ctx, err, r.report())
}

// waitBeforeAttempt waits between two attempts if Temporal has not: its execution timed out, or its
// worker was lost. For a long wait it returns a RecoverableError, because the round holds a slot of
// its agent.
func (r *round) waitBeforeAttempt(ctx context.Context) error {
	if o := r.rows.outage(); o != nil {
		over, err := r.waitInOutage(ctx, *o)
		if over {
			return r.patienceOver(ctx, *o)
		}
		return err
	}
	attempts := r.rows.snapshot().Attempts
	n := len(attempts)
	if n == 0 || r.rows.found == earlierActivity {
		return nil // nothing is to be waited for, or the session has decided when the round continues
	}
	last := attempts[n-1]
	if last.Agent != r.agent {
		return nil // a substitute need not wait for the agent that failed
	}
	wait := r.wait(last.Failure, n)
	left := min(wait, last.EndedAt.Add(wait).Sub(r.Clock())) // clocks differ
	switch {
	case left <= 0:
		return nil
	case left > maxShortWait:
		return recoverable(last.Failure, left)
	}
	return sleep(ctx, left)
}

// wait returns the time until the next attempt. It is what the provider stated, else it doubles with each
// attempt from the team's initial wait to its maximum.
func (r *round) wait(f failures.Failure, attempts int) time.Duration {
	retry := r.session.team.Retry
	if f.RetryAfter > 0 {
		return f.RetryAfter.Std()
	}
	return spec.Backoff(retry.Initial, retry.Max, attempts).Std()
}

// refusal returns why no attempt may start. It returns nil if one may. The last attempt may have been counted
// before its worker died, or the work may end its workers. Budgets are checked for each call.
func (r *round) refusal() *failures.Failure {
	log := r.rows.snapshot()
	if n := len(log.Attempts); n > 0 {
		if last := log.Attempts[n-1].Failure; n >= r.maxAttempts() || !last.RetryAttempt() {
			return &last
		}
	}
	if inARow := log.Lost - log.LostAtProgress; r.LostLimit > 0 && inARow >= r.LostLimit {
		return failures.Failf(failures.WorkerLost, "the worker was lost %d times in a row during this work", inARow)
	}
	return nil
}

// maxAttempts returns the persona's maximum number of attempts in a round.
func (r *round) maxAttempts() int { return r.session.team.Personas[r.in.Persona].Attempts }

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
	f := maskedFailure(r.Agents, *failure)
	attempts := r.countAttempt(ctx, f, session.AttemptReport{
		Agent: r.agent, From: end.from, Usage: r.spender.spent(), Files: end.files, Diff: r.diff(ctx, end.files),
		LeftOut: end.outcome.LeftOut, StartedAt: started, Log: storeLog(ctx, r.Files, r.Agents, end.outcome.Log),
	})
	if attempts >= r.maxAttempts() || !f.RetryAttempt() {
		return r.giveUp(ctx, f)
	}
	if err := r.rows.write(ctx); err != nil {
		return r.interrupted(ctx, err)
	}
	return recoverable(f, r.wait(f, attempts))
}

// countAttempt adds a failed attempt to the round's log, and returns their number.
func (r *round) countAttempt(ctx context.Context, f failures.Failure, report session.AttemptReport) (attempts int) {
	if !f.MayPass() {
		r.endOutage(ctx, false)
	}
	r.rows.change(func(l *session.RoundLog) {
		attempts = len(l.Attempts) + 1
		report.Attempt, report.Failure, report.EndedAt = attempts, f, r.Clock().UTC()
		l.Continue(report.EndedAt)
		if !l.AttemptAt.IsZero() {
			report.StartedAt = l.AttemptAt
		}
		l.Attempts = append(l.Attempts, report)
		l.LostAtProgress, l.AtWork, l.Outage, l.AttemptAt, l.Ended = l.Lost, false, nil, time.Time{}, nil
	})
	r.exec.setProgress("") // the last progress is of the attempt that is over
	return attempts
}

// patienceOver ends the round or, if the session notifies people, only the activity: then a
// later activity continues with the same attempt.
func (r *round) patienceOver(ctx context.Context, o session.Outage) error {
	if r.session.team.Retry.OnOutage == spec.OutageFail {
		r.spender.setAttempt(r.rows.attemptKey(), nil)
		r.countAttempt(ctx, o.Failure, session.AttemptReport{
			Agent: o.Agent, Usage: r.spender.spent(), Files: o.Files, Diff: r.diff(ctx, o.Files), StartedAt: o.Since,
		})
		return r.giveUp(ctx, o.Failure)
	}
	r.breaker.giveBack(ctx)
	if err := r.rows.write(ctx); err != nil {
		return err
	}
	return providerOutage(o, r.report())
}

// canRaiseBudget reports whether an attempt has failed only because a budget of the
// session is exceeded, and the session can raise it or use another agent.
func (r *round) canRaiseBudget(f failures.Failure) bool {
	return f.Category == failures.TokenBudget && r.spender.lastRefusal() != nil &&
		(r.in.OnExceeded == spec.OnExceededAsk || r.in.OnExceeded == spec.OnExceededDegrade)
}

// budgetSpent ends the activity and not the round: no attempt is used, and a later
// activity continues with the same one.
func (r *round) budgetSpent(ctx context.Context, f failures.Failure) error {
	r.rows.change(func(l *session.RoundLog) {
		l.AtWork = false
		l.Pause(r.Clock().UTC(), f)
	})
	if err := r.rows.write(ctx); err != nil {
		return r.interrupted(ctx, err)
	}
	r.breaker.giveBack(ctx)
	stop := *r.spender.lastRefusal()
	stop.Message, stop.RoundReport = f.Message, r.report()
	return temporal.NewApplicationErrorWithOptions(f.Message, session.BudgetSpent,
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{stop}})
}

// giveUp ends the round with the report of all its attempts.
func (r *round) giveUp(ctx context.Context, f failures.Failure) error {
	last := !f.AnotherRound(r.in.Round, r.in.Rounds)
	if err := r.rows.recordGivenUp(ctx, last); err != nil {
		return r.interrupted(ctx, err)
	}
	log := r.rows.snapshot()
	r.exec.observer.RoundEnded(r.agent, f.Category)
	activity.GetLogger(ctx).Info("round given up",
		append([]any{"category", f.Category, "error", f.Message, "attempts", len(log.Attempts)}, spending(r.spender.spent())...)...)
	if last {
		r.exec.observer.AssignmentEnded(r.session.team.Name, session.Failed)
	}
	if err := r.breaker.reportEnd(ctx, &f); err != nil {
		return r.interrupted(ctx, err)
	}
	return unrecoverable(RoundFailure{Failure: f, Attempts: log.Failures(), RoundReport: r.report()}, nil)
}

// diff stores the difference between an attempt's files and the round's input.
func (r *round) diff(ctx context.Context, files spec.Digest) spec.Digest {
	if files == "" || files == r.in.Input {
		return ""
	}
	text, err := r.Files.UnifiedDiff(ctx, r.in.Input, files, session.MaxDiff)
	if err != nil {
		activity.GetLogger(ctx).Warn("the next attempt does not get the changes of this one", "error", err)
		return ""
	}
	return storeLog(ctx, r.Files, r.Agents, []byte(text))
}
