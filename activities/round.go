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
	"github.com/maestro-hive/maestro/internal/platform/failpoint"
	"github.com/maestro-hive/maestro/internal/store/state"
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

// load reads the session and the state of earlier executions of the round. It returns the
// round's result if the record has one.
func (rs *Rounds) load(ctx context.Context, e *execution, log *roundLog, in RoundInput) (*round, *session.RoundResult, error) {
	s, err := fromStore(ctx, e.retryStore, func() (sessionContext, error) {
		var err error
		if in.Beside, err = in.Beside.load(ctx, rs.Files); err != nil {
			return sessionContext{}, err
		}
		return loadSessionContext(ctx, rs.Sessions, in.Head)
	})
	if err != nil {
		return nil, nil, err
	}
	r := &round{ports: rs, in: in, session: s, exec: e, log: log, agent: cmp.Or(in.Agent, s.team.Personas[in.Persona].Agent)}
	result, err := log.load(ctx, s, r.agent, rs.Clock().UTC())
	if err != nil {
		return nil, nil, err
	}
	r.breaker = &agentBreaker{
		port: rs.Breakers, settings: rs.Agents.Breaker(r.agent), log: log, perCall: len(rs.Agents.Offered(r.agent).Gateway) > 0,
		activity: activityKey(e.info), holder: cmp.Or(in.Lease.Holder, activityKey(e.info)), clock: rs.Clock, setProgress: e.setProgress,
	}
	r.outage = &outageWait{
		exec: e, log: log, breaker: r.breaker, signals: rs.Signals, retry: s.team.Retry, order: in.Outage, hold: rs.HoldSlot,
		clock: rs.Clock, random: rs.Random, report: r.report,
	}
	e.dir.cleared = r.outage.filesCleared
	return r, result, nil
}

// openSpender reads the assignment's calls for those of the round.
func (r *round) openSpender(ctx context.Context) (*spender, error) {
	ports, id := r.ports, r.in.AssignmentID
	observer := &callObserver{observer: r.exec.observer, agents: ports.Agents, team: r.session.team.Name, session: r.session.key.Session}
	s := &spender{
		files: ports.Files, state: ports.State, observer: observer, round: r, setProgress: r.exec.setProgress, retryState: r.exec.retryStore,
		of: state.Assignment{Key: r.session.key, AssignmentID: id}, team: r.session.team,
		waits: r.exec.waits, clock: ports.Clock, agent: r.agent, free: r.in.Free, fence: r.log.opened.Fence, answersFrom: r.log.opened.Order.AnswersFrom,
	}
	calls, err := s.load(ctx, lostCalls{ports.State, ports.Sessions, ports.Agents, ports.WorkDirs, r.log.endedCost()})
	if err != nil {
		return nil, err
	}
	if err := r.log.loadCalls(ctx, calls); err != nil {
		return s, err
	}
	return s, s.warn(ctx)
}

// callEnded notes that the agent's process has ended.
func (r *round) callEnded() { r.exec.dir.idle() }

// callBooked ends an outage if the call has an answer: that is progress.
func (r *round) callBooked(ctx context.Context, answered bool) {
	if answered {
		r.outage.end(ctx, true)
	}
}

// attempt returns the next attempt of the round.
func (r *round) nextAttempt() *attempt {
	return &attempt{
		exec: r.exec, files: r.ports.Files, checks: checks{r.exec, r.ports.Files, r.session}, log: r.log, spender: r.spender, breaker: r.breaker,
		session: r.session, in: r.in, clock: r.ports.Clock,
	}
}

// succeed records the result before it is returned to Temporal.
func (r *round) succeed(ctx context.Context, result *session.RoundResult, end attemptEnd) error {
	log := r.log.get()
	result.Summary = textfmt.Shorten(r.ports.Agents.Mask(end.outcome.Summary), session.MaxSummary)
	result.LeftOut = end.outcome.LeftOut
	result.Decisions, result.Kept = end.outcome.Decisions, end.outcome.Kept
	result.From = end.from
	result.Agent, result.Usage, result.RoundReport = r.agent, log.Usage().Add(r.spender.spent()), r.report()
	result.Attempts, result.Failures = len(log.Attempts)+1, log.Failures()
	result.StartedAt, result.EndedAt = log.AttemptAt, r.ports.Clock().UTC()
	result.Log = storeLog(ctx, r.ports.Files, r.ports.Agents, end.outcome.Log)
	if err := r.log.recordResult(ctx, result); err != nil {
		return err
	}
	r.exec.observer.RoundEnded(r.agent, "")
	failpoint.Here("recorded, not completed")
	if !r.in.Integrating && len(result.SendsBack) == 0 { // else it is done again, or was done before
		r.exec.observer.AssignmentEnded(r.session.team.Name, session.Completed)
	}
	return nil
}

// giveUp ends the round with the report of all its attempts.
func (r *round) giveUp(ctx context.Context, f failures.Failure) error {
	last := !f.AnotherRound(r.in.Round, r.in.Rounds)
	if err := r.log.recordGivenUp(ctx, last); err != nil {
		return r.interrupted(ctx, err)
	}
	log := r.log.get()
	r.exec.observer.RoundEnded(r.agent, f.Category)
	activity.GetLogger(ctx).Info("round given up", append([]any{"category", f.Category, "error", f.Message, "attempts", len(log.Attempts)}, spending(r.spender.spent())...)...)
	if last {
		r.exec.observer.AssignmentEnded(r.session.team.Name, session.Failed)
	}
	report := RoundFailure{Failure: f, Attempts: log.Failures(), RoundReport: r.report()}
	report.Unreported = r.breaker.report(ctx, &f)
	return unrecoverable(report, nil)
}

// report is what every end of the activity reports.
func (r *round) report() session.RoundReport {
	return session.RoundReport{Lost: r.log.get().Lost, Total: r.spender.spentInAll()}
}

// done returns a recorded result for the session, and reports to the breaker.
func (r *round) done(ctx context.Context, result *session.RoundResult) session.RoundResult {
	out := *result
	out.Unreported = r.breaker.report(ctx, nil)
	return out
}

// interrupted ends an execution because of an error that is not a failure of the attempt.
func (r *round) interrupted(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	r.log.noteInterrupted(ctx)
	if !resumesAfter(ctx, err) {
		r.breaker.giveBack(ctx)
	}
	if r.spender == nil {
		return executionEnd(ctx, err)
	}
	return executionEnd(ctx, err, r.report())
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
	r.log.change(func(l *session.RoundLog) {
		l.Started = false
		l.Pause(r.ports.Clock().UTC(), f.Category)
	})
	if err := r.log.write(ctx); err != nil {
		return r.interrupted(ctx, err)
	}
	r.breaker.giveBack(ctx)
	stop := *r.spender.lastRefusal()
	stop.Message, stop.RoundReport = f.Message, r.report()
	return temporal.NewApplicationErrorWithOptions(f.Message, session.BudgetSpent,
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{stop}})
}

// diff stores the difference between an attempt's files and the round's input.
func (r *round) diff(ctx context.Context, files spec.Digest) spec.Digest {
	if files == "" || files == r.in.Input {
		return ""
	}
	text, err := r.ports.Files.UnifiedDiff(ctx, r.in.Input, files, session.MaxDiff)
	if err != nil {
		activity.GetLogger(ctx).Warn("the next attempt does not get the changes of this one", "error", err)
		return ""
	}
	return storeLog(ctx, r.ports.Files, r.ports.Agents, []byte(text))
}
