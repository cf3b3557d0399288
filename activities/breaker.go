package activities

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Breakers reads and changes the circuit breakers of the installation. An error means that the database could not be reached.
type Breakers interface {
	// Read returns a breaker; a closed one if it has never failed.
	Read(ctx context.Context, name string) (session.BreakerStatus, error)
	// Report counts the outcome of a round or a call, once for each id.
	Report(ctx context.Context, r session.BreakerReport) (breaker.Answer, error)
	// Acquire requests a lease to try an agent whose breaker is half-open, or
	// extends the one that the holder has.
	Acquire(ctx context.Context, set spec.Breaker, holder string) (breaker.Answer, error)
	// Renew extends a lease.
	Renew(ctx context.Context, set spec.Breaker, holder string) (breaker.Answer, error)
}

// The time limits of a round for its breaker.
const (
	// breakerLimit bounds what a round asks its breaker while it works. It goes on without an answer.
	breakerLimit = 2 * time.Second
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
	port     Breakers
	settings spec.Breaker
	rows     *roundRows
	// retryStore tries something until the database can be used.
	retryStore func(context.Context, func() error) error
	// perCall: a gateway reports the failures of calls, so those of attempts and rounds are not reported.
	perCall bool
	// activity names the round's activity; holder is the holder of its lease: the wait's
	// activity, if the lease is from a wait.
	activity, holder string
	// reports counts the reports of answers and calls, for their ids.
	reports atomic.Int64
	clock   Clock
}

// allow permits the round to begin, or returns the open breaker. A round that has counted an
// attempt since it got its permit has begun, and needs no other one.
func (b *agentBreaker) allow(ctx context.Context) (open *session.BreakerStatus, err error) {
	log := b.rows.snapshot()
	if log.Permit != nil && len(log.Attempts) > 0 && b.rows.outage() == nil {
		return nil, nil
	}
	err = b.retryStore(ctx, func() error {
		open = nil
		s, err := b.port.Read(ctx, b.settings.Name)
		switch {
		case err != nil:
			return err
		case s.State == session.BreakerClosed:
			b.rows.setPermit(&session.BreakerPermit{Generation: s.Generation})
			return nil
		case s.At(b.clock()).State == session.BreakerIsOpen:
			open = &s
			return nil
		}
		answer, err := b.port.Acquire(ctx, b.settings, b.holder)
		switch {
		case err != nil:
			return err
		case answer.Effect == breaker.Leased:
			b.rows.setPermit(&session.BreakerPermit{Generation: answer.Generation, Holder: b.holder})
		case answer.Effect == breaker.Passed:
			b.rows.setPermit(&session.BreakerPermit{Generation: answer.Generation})
		default:
			open = &answer.BreakerStatus
		}
		return nil
	})
	return open, err
}

// activityKey names an activity execution for a breaker.
func activityKey(info activity.Info) string {
	return info.WorkflowExecution.ID + "/" + info.WorkflowExecution.RunID + "/" + info.ActivityID
}

// executionKey names one execution of an activity.
func executionKey(info activity.Info) string {
	return fmt.Sprintf("%s/%d", activityKey(info), info.Attempt)
}

// reportID returns a new id for the report of an answer or a call.
func (b *agentBreaker) reportID(what string) string {
	return fmt.Sprintf("%s/%s/%d/%d", b.activity, what, b.clock().UnixNano(), b.reports.Add(1))
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
			bounded, cancel := context.WithTimeout(ctx, breakerLimit)
			answer, err := b.port.Renew(bounded, b.settings, holder)
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
	if permit == nil {
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
func (b *agentBreaker) reportProvider(ctx context.Context, f *failures.Failure) *session.BreakerStatus {
	log := b.rows.snapshot()
	if f != nil {
		b.rows.setPermit(nil)
	}
	id := b.reportID("answer")
	if f != nil && log.Outage != nil { // a further execution of the round may report the same failure
		id = fmt.Sprintf("%s/%d/%d", b.activity, len(log.Attempts)+1, log.Outage.Tries)
	}
	report := b.outcome(id, log.Permit, f)
	if report == nil {
		return nil
	}
	after := b.send(ctx, *report)
	if after != nil && f == nil { // the report has ended the probe, and the round continues
		b.rows.setPermit(&session.BreakerPermit{Generation: after.Generation})
	}
	return after
}

// send reports while the round works, also after the end of the context, and returns the breaker after it; nil: the database
// could not be used in time.
func (b *agentBreaker) send(ctx context.Context, report session.BreakerReport) *session.BreakerStatus {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), breakerLimit)
	defer cancel()
	answer, err := b.port.Report(bounded, report)
	if err != nil {
		activity.GetLogger(ctx).Warn("the breaker did not get the report on the provider", "breaker", b.settings.Name, "error", err)
		return nil
	}
	return &answer.BreakerStatus
}

// reportEnd reports how the round ended; f is nil for a success. It waits for a database that cannot be used. If the worker ends
// first, the next execution of the activity reports it.
func (b *agentBreaker) reportEnd(ctx context.Context, f *failures.Failure) error {
	report := b.outcome(b.activity, b.rows.snapshot().Permit, f)
	if report == nil {
		return nil
	}
	return b.retryStore(ctx, func() error {
		_, err := b.port.Report(ctx, *report)
		return err
	})
}

// giveBack ends a probe without a result. If that fails, its lease expires.
func (b *agentBreaker) giveBack(ctx context.Context) {
	if permit := b.rows.snapshot().Permit; permit != nil && permit.Holder != "" {
		b.send(ctx, permit.GiveBack(b.settings, b.clock()))
	}
}

// defaultOpenWait is how long calls are refused by an open breaker without a known end of the cooldown.
const defaultOpenWait = time.Minute

// callBreaker applies the breaker of a round to the calls of an attempt, and reports them. It is a
// [session.CallBreaker].
type callBreaker struct {
	*agentBreaker
	ctx context.Context //nolint:containedctx // the attempt's context; reports outlive their calls
	// generation is the breaker's when the last call was permitted, which may have been long after the round began.
	generation atomic.Int64
}

// forCalls returns the breaker for the calls of an attempt.
func (b *agentBreaker) forCalls(ctx context.Context) session.CallBreaker {
	return &callBreaker{agentBreaker: b, ctx: ctx}
}

// RetryAfter returns for how long calls are refused; zero: they are permitted. A breaker that cannot be read permits calls. A
// half-open one permits the calls of a probe.
func (b *callBreaker) RetryAfter() time.Duration {
	bounded, cancel := context.WithTimeout(b.ctx, breakerLimit)
	defer cancel()
	s, err := b.port.Read(bounded, b.settings.Name)
	if err != nil {
		return 0
	}
	b.generation.Store(s.Generation)
	now := b.clock()
	switch s = s.At(now); s.State {
	case session.BreakerIsOpen:
		if s.OpenUntil == nil {
			return defaultOpenWait
		}
		return s.OpenUntil.Sub(now)
	case session.BreakerHalfOpen:
		if permit := b.rows.snapshot().Permit; permit == nil || permit.Holder == "" {
			return defaultOpenWait
		}
	case session.BreakerClosed:
	}
	return 0
}

// Report reports a failure, or an answer.
func (b *callBreaker) Report(f *failures.Failure) {
	if f == nil {
		b.reportProvider(b.ctx, nil)
		return
	}
	permit := b.rows.snapshot().Permit
	if permit == nil || b.settings.WeighFailure(f) != failures.CountsAsFailure {
		return
	}
	b.send(b.ctx, session.BreakerReport{
		ID: b.reportID("call"), Breaker: b.settings, Outcome: failures.CountsAsFailure,
		BreakerPermit: session.BreakerPermit{Generation: max(permit.Generation, b.generation.Load()), Holder: permit.Holder},
		Category:      f.Category, Message: textfmt.Shorten(f.Message, session.MaxMessage), RetryAfter: f.RetryAfter,
	})
}
