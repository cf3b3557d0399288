package activities

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// Breakers knows the circuit breakers of the store. Every call takes at most as
// long as its context allows; an error means that Temporal, or a worker that
// answers for the breaker, could not be reached.
type Breakers interface {
	// Read returns a breaker as of its last acknowledged change; a closed one
	// where there is none.
	Read(ctx context.Context, name string) (breaker.View, error)
	// Report delivers the outcome of a round; again under the same id, it
	// counts once.
	Report(ctx context.Context, r session.BreakerReport) (breaker.Answer, error)
	// Acquire asks for a lease to try an agent whose breaker is half-open, or
	// extends the one that the holder has.
	Acquire(ctx context.Context, id string, b spec.Breaker, holder string) (breaker.Answer, error)
	// Renew extends a lease.
	Renew(ctx context.Context, id string, b spec.Breaker, holder string) (breaker.Answer, error)
}

// How long a round lets its breaker take.
const (
	// readLimit bounds one look at a breaker.
	readLimit = 5 * time.Second
	// reportLimit bounds the delivery of an outcome. What is not delivered by
	// then travels with the session.
	reportLimit = 2 * time.Second
	// renewEvery is how often a probe renews its lease.
	renewEvery = 20 * time.Second
)

// TurnedAway is the detail of a BreakerOpen error: the round has not begun.
type TurnedAway struct {
	Breaker spec.Breaker        `json:"breaker"`
	Wait    session.BreakerWait `json:"wait"`
	// PatienceUntil is when the team's patience with the provider is over; zero: a person
	// has opened the breaker, or nothing is waited out. Outage is the one that the round is
	// in the middle of; nil: it has met none.
	PatienceUntil time.Time       `json:"patience_until,omitzero"`
	Outage        *session.Outage `json:"outage,omitempty"`
}

// askBreaker lets the round begin or turns it away with a BreakerOpen error. A
// round that has counted an attempt since it was let through has begun, and is not
// asked again.
func (r *round) askBreaker(ctx context.Context) error {
	if r.Breakers == nil || r.log.Pass != nil && len(r.log.Attempts) > 0 && r.outage() == nil {
		return nil
	}
	b := r.breaker()
	view, err := r.readBreaker(ctx, b.Name)
	if err != nil {
		return err
	}
	switch view.State.At(r.Clock()) {
	case session.BreakerClosed:
		r.pass(session.BreakerPass{Generation: view.State.Generation})
		return nil
	case session.BreakerHalfOpen:
		now, passed := r.probe(ctx, b)
		if passed {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if now != nil {
			view = *now
		}
	case session.BreakerIsOpen:
	}
	return r.turnedAway(ctx, &view)
}

// probe asks to be the round that tries the agent for all others. Refused, it
// returns the breaker as it is now, nil where nobody answered.
func (r *round) probe(ctx context.Context, b spec.Breaker) (now *breaker.View, passed bool) {
	holder := r.holder()
	bounded, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	answer, err := r.Breakers.Acquire(bounded, r.updateID("acquire"), b, holder)
	switch {
	case err != nil:
		activity.GetLogger(ctx).Warn("no lease from the agent's breaker: it does not answer", "breaker", b.Name, "error", err)
		return nil, false
	case answer.Effect == breaker.Leased:
		r.pass(session.BreakerPass{Generation: answer.State.Generation, Holder: holder})
		return nil, true
	case answer.Effect == breaker.Passed:
		r.pass(session.BreakerPass{Generation: answer.State.Generation})
		return nil, true
	}
	return &answer.View, false
}

// readBreaker looks until there is an answer: a round that does not know whether
// its breaker is open may not begin.
func (r *round) readBreaker(ctx context.Context, name string) (view breaker.View, err error) {
	err = r.untilAnswered(ctx, "breaker "+name+" cannot be read", func(ctx context.Context) error {
		view, err = r.Breakers.Read(ctx, name)
		return err
	})
	return view, err
}

// untilAnswered asks what the round cannot do without until there is an answer.
// Meanwhile the heartbeat says what is amiss, and no attempt is used up.
func (r *round) untilAnswered(ctx context.Context, amiss string, ask func(context.Context) error) error {
	for wait := storeWait; ; wait = min(2*wait, storeWaitMax) {
		bounded, cancel := context.WithTimeout(ctx, readLimit)
		err := ask(bounded)
		cancel()
		if err == nil {
			return nil
		}
		activity.GetLogger(ctx).Warn(amiss+"; trying again", "error", err, "wait", wait)
		r.setProgress(fmt.Sprintf("waiting: %s: %s", amiss, textfmt.Shorten(err.Error(), session.MaxMessage)))
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// turnedAway leaves no trace of a round that has not begun. One that had, before
// it came to another agent, keeps what it has for the activity that continues.
func (r *round) turnedAway(ctx context.Context, view *breaker.View) error {
	now, patience := r.Clock().UTC(), r.session.team.Retry.WaitsOut()
	t := TurnedAway{Breaker: r.breaker(), Wait: view.Status().WaitFor(now)}
	if t.Outage = r.outage(); t.Outage != nil {
		t.Outage.Failure.Output = ""
		t.PatienceUntil = t.Outage.PatienceUntil(patience)
	} else if patience > 0 && view.State.Forced == nil {
		t.PatienceUntil = now.Add(patience.Std())
	}
	r.mu.Lock()
	this := r.thisRound()
	if r.goesOnWith || len(r.log.Attempts) > 0 || r.log.Begun > 0 || r.log.Lost > 0 || r.log.Outage != nil {
		r.mu.Unlock()
		if err := r.writeRecord(ctx); err != nil { // under the key by which the next one looks for it
			return err
		}
		return breakerOpen(t)
	}
	if !r.stored {
		r.mu.Unlock()
		return breakerOpen(t)
	}
	key := this.Key
	r.record.Rounds = slices.DeleteFunc(r.record.Rounds, func(rr session.RoundRecord) bool { return rr.Key == key })
	record := r.record
	r.mu.Unlock()
	if err := r.retryStore(ctx, func() error { return r.Sessions.PutRecord(r.session.key, record) }); err != nil {
		return err
	}
	return breakerOpen(t)
}

func breakerOpen(t TurnedAway) error {
	return temporal.NewApplicationErrorWithOptions(
		fmt.Sprintf("breaker %s is open: %s", t.Breaker.Name, t.Wait.Why), session.BreakerOpen,
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{t}})
}

func (r *round) breaker() spec.Breaker {
	return r.Agents.Breaker(r.agent())
}

func (r *round) pass(p session.BreakerPass) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log.Pass = &p
}

// holder is what the round's lease goes by: the wait's, if it brings one.
func (r *round) holder() string {
	if r.in.Lease.Holder != "" {
		return r.in.Lease.Holder
	}
	return activityKey(r.info)
}

// activityKey names an activity execution for a breaker.
func activityKey(info activity.Info) string {
	return info.WorkflowExecution.ID + "/" + info.WorkflowExecution.RunID + "/" + info.ActivityID
}

// updateID is one for an update that may be sent any number of times.
func (r *round) updateID(what string) string {
	return fmt.Sprintf("%s/%s/%d", activityKey(r.info), what, r.Clock().UnixNano())
}

// keepLease renews a probe's lease while the round works.
func (r *round) keepLease(ctx context.Context) (stop func()) {
	if r.log.Pass == nil || r.log.Pass.Holder == "" {
		return func() {}
	}
	b, holder, wait := r.breaker(), r.log.Pass.Holder, renewEvery
	if len(r.log.Attempts) > 0 {
		wait = 0 // the lease is from an earlier attempt
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ; sleep(ctx, wait) == nil && r.holds(holder); wait = renewEvery {
			bounded, cancel := context.WithTimeout(ctx, readLimit)
			answer, err := r.Breakers.Renew(bounded, r.updateID("renew"), b, holder)
			cancel()
			if ctx.Err() == nil && (err != nil || answer.Effect == breaker.Refused) {
				activity.GetLogger(ctx).Warn("the probe's lease could not be renewed; another round may probe the agent", "breaker", b.Name, "error", err)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// holds reports whether the round still tries its agent under a lease.
func (r *round) holds(holder string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Pass != nil && r.log.Pass.Holder == holder
}

// report tells the breaker how the round ended; f is nil for a success. It
// returns what could not be delivered in time, for the session to carry. It also
// works when the round's own time is over.
func (r *round) report(ctx context.Context, f *failures.Failure) *session.BreakerReport {
	r.mu.Lock()
	pass := r.log.Pass
	r.mu.Unlock()
	if r.Breakers == nil || pass == nil {
		return nil
	}
	report := session.BreakerReport{ID: activityKey(r.info), Breaker: r.breaker(), BreakerPass: *pass, Outcome: failures.CountsAsSuccess}
	if f != nil {
		report.Outcome, report.Category, report.Message = report.Breaker.Weigh(f.Category), f.Category, textfmt.Shorten(f.Message, session.MaxMessage)
	}
	if report.Outcome == failures.Neutral && report.Holder == "" {
		return nil
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportLimit)
	defer cancel()
	if err := deliver(bounded, r.Breakers, report); err != nil {
		activity.GetLogger(ctx).Warn("the report of the round to the breaker is delayed", "breaker", report.Breaker.Name, "error", err)
		return &report
	}
	return nil
}

// giveBack ends a probe that came to nothing: it says nothing about the agent.
func (r *round) giveBack(ctx context.Context) {
	if r.recalled() && r.log.Pass != nil && r.log.Pass.Holder != "" {
		r.report(ctx, &failures.Failure{Category: failures.Cancelled})
	}
}

// deliver sends a report, unless it would change nothing: a success matters only
// to a breaker that has counted failures, or to one that is being probed.
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

// Reports delivers outcomes of rounds that the breakers have yet to hear of.
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
