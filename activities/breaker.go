package activities

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Breakers reads and changes the circuit breakers of the store. Every call ends with its
// context. An error means that Temporal, or a worker that serves the breaker, could not be
// reached.
type Breakers interface {
	// Read returns a breaker after its last acknowledged change; a closed one
	// if there is none.
	Read(ctx context.Context, name string) (breaker.View, error)
	// Report delivers the outcome of a round. It is idempotent by the report's id.
	Report(ctx context.Context, r session.BreakerReport) (breaker.Answer, error)
	// Acquire requests a lease to try an agent whose breaker is half-open, or
	// extends the one that the holder has.
	Acquire(ctx context.Context, id string, b spec.Breaker, holder string) (breaker.Answer, error)
	// Renew extends a lease.
	Renew(ctx context.Context, id string, b spec.Breaker, holder string) (breaker.Answer, error)
}

// The time limits of a round for its breaker.
const (
	// readLimit bounds one read of a breaker.
	readLimit = 5 * time.Second
	// reportLimit bounds the delivery of an outcome. After that the session delivers it
	// later.
	reportLimit = 2 * time.Second
	// renewEvery is how often a probe renews its lease.
	renewEvery = 20 * time.Second
)

// BreakerStop is the detail of a BreakerOpen error: the round has not begun.
type BreakerStop struct {
	Breaker spec.Breaker        `json:"breaker"`
	Wait    session.BreakerWait `json:"wait"`
	// PatienceUntil is the end of the team's patience with the provider; zero: a person has
	// opened the breaker, or the failure is not waited out. Outage is the outage in which the
	// round is; nil: none.
	PatienceUntil time.Time       `json:"patience_until,omitzero"`
	Outage        *session.Outage `json:"outage,omitempty"`
}

// agentBreaker is the breaker of the agent that does a round.
type agentBreaker struct {
	port     Breakers // nil: every round may begin
	settings spec.Breaker
	rows     *roundRows
	// perCall: a gateway reports the failures of calls, so those of attempts and rounds are not reported.
	perCall bool
	// activity names the round's activity; holder is the holder of its lease: the wait's
	// activity, if the lease is from a wait.
	activity, holder string
	// updates counts the updates that were sent, for their ids.
	updates     atomic.Int64
	clock       Clock
	setProgress func(string)
}

// allow permits the round to begin, or returns the open breaker. A round that has counted an
// attempt since it got its permit has begun, and needs no other one.
func (b *agentBreaker) allow(ctx context.Context) (open *breaker.View, err error) {
	log := b.rows.snapshot()
	if b.port == nil || log.Permit != nil && len(log.Attempts) > 0 && b.rows.outage() == nil {
		return nil, nil
	}
	view, err := b.read(ctx)
	if err != nil {
		return nil, err
	}
	switch view.State.At(b.clock()) {
	case session.BreakerClosed:
		b.rows.setPermit(&session.BreakerPermit{Generation: view.State.Generation})
		return nil, nil
	case session.BreakerHalfOpen:
		bounded, cancel := context.WithTimeout(ctx, readLimit)
		answer, err := b.port.Acquire(bounded, b.updateID("acquire"), b.settings, b.holder)
		cancel()
		switch {
		case answer.Effect == breaker.Leased: // also while the work is cancelled: the lease is given back then
			b.rows.setPermit(&session.BreakerPermit{Generation: answer.State.Generation, Holder: b.holder})
			return nil, nil
		case answer.Effect == breaker.Passed:
			b.rows.setPermit(&session.BreakerPermit{Generation: answer.State.Generation})
			return nil, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			activity.GetLogger(ctx).Warn("no lease from the agent's breaker: no answer", "breaker", b.settings.Name, "error", err)
		default:
			view = answer.View
		}
	case session.BreakerIsOpen:
	}
	return &view, nil
}

// read retries until it has read the breaker: a round may not begin before. The heartbeat
// reports the reason meanwhile, and no attempt is used up.
func (b *agentBreaker) read(ctx context.Context) (breaker.View, error) {
	unread := "breaker " + b.settings.Name + " cannot be read"
	for wait := storeWait; ; wait = min(2*wait, storeWaitMax) {
		bounded, cancel := context.WithTimeout(ctx, readLimit)
		view, err := b.port.Read(bounded, b.settings.Name)
		cancel()
		if err == nil {
			return view, nil
		}
		activity.GetLogger(ctx).Warn(unread+"; trying again", "error", err, "wait", wait)
		b.setProgress(fmt.Sprintf("waiting: %s: %s", unread, textfmt.Shorten(err.Error(), session.MaxMessage)))
		if err := sleep(ctx, wait); err != nil {
			return breaker.View{}, err
		}
	}
}

// activityKey names an activity execution for a breaker.
func activityKey(info activity.Info) string {
	return info.WorkflowExecution.ID + "/" + info.WorkflowExecution.RunID + "/" + info.ActivityID
}

// executionKey names one execution of an activity.
func executionKey(info activity.Info) string {
	return fmt.Sprintf("%s/%d", activityKey(info), info.Attempt)
}

// updateID returns the id of an update that may be sent several times: each call returns another one.
func (b *agentBreaker) updateID(what string) string {
	return fmt.Sprintf("%s/%s/%d/%d", b.activity, what, b.clock().UnixNano(), b.updates.Add(1))
}

// keepLease renews a probe's lease while the round works.
func (b *agentBreaker) keepLease(ctx context.Context) (stop func()) {
	log := b.rows.snapshot()
	if log.Permit == nil || log.Permit.Holder == "" {
		return func() {}
	}
	holder, wait := log.Permit.Holder, renewEvery
	if len(log.Attempts) > 0 {
		wait = 0 // the lease is from an earlier attempt
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ; sleep(ctx, wait) == nil && b.holds(holder); wait = renewEvery {
			bounded, cancel := context.WithTimeout(ctx, readLimit)
			answer, err := b.port.Renew(bounded, b.updateID("renew"), b.settings, holder)
			cancel()
			if ctx.Err() == nil && (err != nil || answer.Effect == breaker.Refused) {
				activity.GetLogger(ctx).Warn("the probe's lease could not be renewed; another round may probe the agent", "breaker",
					b.settings.Name, "error", err)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// holds reports whether the round still probes its agent under a lease.
func (b *agentBreaker) holds(holder string) bool {
	permit := b.rows.snapshot().Permit
	return permit != nil && permit.Holder == holder
}

// outcome is the report of a failure or, for nil, of an answer; nil: the
// breaker has nothing to learn from it.
func (b *agentBreaker) outcome(id string, permit *session.BreakerPermit, f *failures.Failure) *session.BreakerReport {
	if b.port == nil || permit == nil {
		return nil
	}
	report := &session.BreakerReport{
		ID: id, Breaker: b.settings, BreakerPermit: *permit,
		Outcome: failures.CountsAsSuccess,
	}
	if f != nil {
		report.Outcome = b.settings.WeighFailure(f)
		report.Category, report.Message, report.RetryAfter = f.Category, textfmt.Shorten(f.Message, session.MaxMessage), f.RetryAfter
	}
	if b.perCall && report.Outcome == failures.CountsAsFailure {
		report.Outcome = failures.Neutral
	}
	if report.Outcome == failures.Neutral && report.Holder == "" {
		return nil
	}
	return report
}

// reportProvider reports immediately that the provider has failed or, without a failure,
// that it has answered. It returns the breaker after the report; nil: unknown, or there was
// nothing to report. After a failure the round needs another permit before it tries the
// agent.
func (b *agentBreaker) reportProvider(ctx context.Context, f *failures.Failure) *breaker.View {
	log := b.rows.snapshot()
	if f != nil {
		b.rows.setPermit(nil)
	}
	id := b.updateID("answer")
	if f != nil && log.Outage != nil { // a further execution of the round may report the same failure
		id = fmt.Sprintf("%s/%d/%d", b.activity, len(log.Attempts)+1, log.Outage.Tries)
	}
	report := b.outcome(id, log.Permit, f)
	if report == nil {
		return nil
	}
	view := b.send(ctx, *report)
	if view != nil && f == nil { // the report has ended the probe, and the round continues
		b.rows.setPermit(&session.BreakerPermit{Generation: view.State.Generation})
	}
	return view
}

// send delivers a report, also after the end of the context, and returns the breaker after it;
// nil: it was not delivered in time.
func (b *agentBreaker) send(ctx context.Context, report session.BreakerReport) *breaker.View {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportLimit)
	defer cancel()
	answer, err := b.port.Report(bounded, report)
	if err != nil {
		activity.GetLogger(ctx).Warn("the breaker did not get the report on the provider", "breaker", b.settings.Name, "error", err)
		return nil
	}
	return &answer.View
}

// providerBack reports that the provider answers again, if the breaker has counted failures.
func (b *agentBreaker) providerBack(ctx context.Context) {
	if b.port == nil {
		return
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
	view, err := b.port.Read(bounded, b.settings.Name)
	cancel()
	if err == nil && (view.State.Failures > 0 || view.State.Open) {
		b.reportProvider(ctx, nil)
	}
}

// report reports how the round ended; f is nil for a success. It returns a report that could
// not be delivered in time, so that the session delivers it later. It also works after the
// end of the round's context.
func (b *agentBreaker) report(ctx context.Context, f *failures.Failure) *session.BreakerReport {
	report := b.outcome(b.activity, b.rows.snapshot().Permit, f)
	if report == nil {
		return nil
	}
	if left := deliverAll(context.WithoutCancel(ctx), b.port, []session.BreakerReport{*report}); len(left) > 0 {
		return report
	}
	return nil
}

// giveBack ends a probe without a result.
func (b *agentBreaker) giveBack(ctx context.Context) {
	if permit := b.rows.snapshot().Permit; permit != nil && permit.Holder != "" {
		b.report(ctx, &failures.Failure{Category: failures.Cancelled})
	}
}

// deliver sends a report, unless it would change nothing: a success changes only a
// breaker that has counted failures, or that is being probed.
func deliver(ctx context.Context, breakers Breakers, report session.BreakerReport) error {
	if report.Outcome == failures.CountsAsSuccess && report.Holder == "" {
		view, err := breakers.Read(ctx, report.Breaker.Name)
		if err != nil {
			return err
		}
		if view.State.Open || view.State.Failures == 0 || view.State.Generation > report.Generation {
			return nil
		}
	}
	_, err := breakers.Report(ctx, report)
	return err
}

// Reports delivers outcomes of rounds that the breakers have not received yet.
type Reports struct{ Breakers Breakers }

// Report tries once more, for at most [reportLimit], and returns what is left.
func (rs *Reports) Report(ctx context.Context, reports []session.BreakerReport) ([]session.BreakerReport, error) {
	return deliverAll(ctx, rs.Breakers, reports), nil
}

func deliverAll(ctx context.Context, breakers Breakers, reports []session.BreakerReport) (left []session.BreakerReport) {
	ctx, cancel := context.WithTimeout(ctx, reportLimit)
	defer cancel()
	for _, report := range reports {
		if err := deliver(ctx, breakers, report); err != nil {
			activity.GetLogger(ctx).Warn("the report of the round to the breaker is delayed", "breaker", report.Breaker.Name, "error", err)
			left = append(left, report)
		}
	}
	return left
}

const (
	// viewAge is how old the breaker's state may be for a call.
	viewAge = 2 * time.Second
	// defaultOpenWait is how long calls are refused by an open breaker without a known end of the cooldown.
	defaultOpenWait = time.Minute
)

// callBreaker applies the breaker of a round to the calls of an attempt, and reports them. It is a
// [session.CallBreaker].
type callBreaker struct {
	*agentBreaker
	ctx context.Context //nolint:containedctx // the attempt's context; reports outlive their calls

	mu     sync.Mutex
	seen   breaker.View
	readAt time.Time
}

// forCalls returns the breaker for the calls of an attempt; nil: there is none.
func (b *agentBreaker) forCalls(ctx context.Context) session.CallBreaker {
	if b.port == nil {
		return nil
	}
	return &callBreaker{agentBreaker: b, ctx: ctx}
}

// Open returns for how long calls are refused; zero: they are permitted. A breaker that cannot be read permits calls. A
// half-open one permits the calls of a probe.
func (b *callBreaker) Open() time.Duration {
	now, state := b.clock(), b.view().State
	switch state.At(now) {
	case session.BreakerIsOpen:
		if state.OpenUntil.IsZero() {
			return defaultOpenWait
		}
		return state.OpenUntil.Sub(now)
	case session.BreakerHalfOpen:
		if permit := b.rows.snapshot().Permit; permit == nil || permit.Holder == "" {
			return defaultOpenWait
		}
	case session.BreakerClosed:
	}
	return 0
}

// Report reports a failure. An answer is reported if there have been failures before.
func (b *callBreaker) Report(f *failures.Failure) {
	state := b.view().State
	if f == nil {
		if state.Failures > 0 || state.Open {
			b.setView(b.reportProvider(b.ctx, nil))
		}
		return
	}
	permit := b.rows.snapshot().Permit
	if permit == nil || b.settings.WeighFailure(f) != failures.CountsAsFailure {
		return
	}
	b.setView(b.send(b.ctx, session.BreakerReport{
		ID: b.updateID("call"), Breaker: b.settings, Outcome: failures.CountsAsFailure,
		// The call began after the breaker was read, which may have been long after the round began.
		BreakerPermit: session.BreakerPermit{Generation: max(permit.Generation, state.Generation), Holder: permit.Holder},
		Category:      f.Category, Message: textfmt.Shorten(f.Message, session.MaxMessage), RetryAfter: f.RetryAfter,
	}))
}

// view returns the breaker's state, at most viewAge old; zero: it is unknown.
func (b *callBreaker) view() breaker.View {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.clock(); now.Sub(b.readAt) >= viewAge {
		bounded, cancel := context.WithTimeout(b.ctx, reportLimit)
		defer cancel()
		if view, err := b.port.Read(bounded, b.settings.Name); err == nil {
			b.seen = view
		}
		b.readAt = now
	}
	return b.seen
}

// setView stores the breaker's state after a report; nil: it is unknown.
func (b *callBreaker) setView(view *breaker.View) {
	if view == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if view.State.Revision >= b.seen.State.Revision {
		b.seen, b.readAt = *view, b.clock()
	}
}
