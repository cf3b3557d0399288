package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// Signals tells the workflow of a session what its rounds come to while they still work.
type Signals interface {
	// Outage says that an assignment's agent meets an outage that lasts, or that it is
	// over. ctx is that of the round's activity.
	Outage(ctx context.Context, news OutageNews) error
}

const (
	// holdSlot is for how long an outage usually keeps the agent's slot.
	holdSlot = time.Minute
	// signalLimit bounds one signal to the workflow, signalEvery is the wait between two
	// tries. A session hears of another cause of an outage every noticeEvery at most: each
	// time adds to its history.
	signalLimit = 5 * time.Second
	signalEvery = 2 * time.Second
	noticeEvery = 10 * time.Minute
)

// OutageStop is the detail of a ProviderOutage error: the provider has been away for
// longer than the team's patience.
type OutageStop struct {
	// Since is when the outage began, Until when the attempt would continue.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Failure is the last one, without its output.
	Failure failures.Failure `json:"failure"`
	Waits   int              `json:"waits"`
	// Total is all that the assignment has cost so far.
	Total cost.Usage `json:"total"`
}

// waitsOut reports whether the round waits a failure out: trouble of the provider or of the
// host uses up no attempt.
func (r *round) waitsOut(f failures.Failure) bool {
	return f.WaitedOut() && r.session.team.Retry.WaitsOut() > 0
}

// outage is the outage of the round's agent; nil: there is none.
func (r *round) outage() *session.Outage {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.log.Outage; o != nil && o.Agent == r.agent() {
		copied := *o
		return &copied
	}
	return nil
}

// beginOutage notes a failure that is waited out, durably, and reports it to the breaker:
// a BreakerOpen error if that is open now.
func (r *round) beginOutage(ctx context.Context, f failures.Failure, l left) error {
	f = r.masked(f)
	var o session.Outage
	r.changeLog(func(log *session.RoundLog) {
		o = log.Outage.After(f, r.agent(), r.Clock().UTC(), r.session.team.Retry.WaitsOut(), r.Random.next())
		o.Left, o.Files = l.filled, l.files
		log.Outage, log.Started, log.LostAtProgress = &o, false, log.Lost
	})
	r.setProgress(o.String())
	if err := r.writeRecord(ctx); err != nil {
		return err
	}
	activity.GetLogger(ctx).Warn("the "+f.Category.Awaited()+" fails; the attempt waits and continues", "category", f.Category, "error", f.Message, "until", o.Until, "since", o.Since)
	view := r.reportProvider(ctx, session.AttemptFailure{Category: f.Category, Message: f.Message})
	if view != nil && view.State.At(r.Clock()) == session.BreakerIsOpen {
		return r.turnedAway(ctx, view)
	}
	return nil
}

// reportProvider tells the breaker at once that the provider has failed, or, without a
// category, that it has answered. It returns the breaker as it is then; nil: unknown, or
// there was nothing to tell. After a failure the round has to ask again before it tries
// the agent.
func (r *round) reportProvider(ctx context.Context, f session.AttemptFailure) *breaker.View {
	r.mu.Lock()
	pass, revision := r.log.Pass, r.log.Revision
	if f.Category != "" {
		r.log.Pass = nil
	}
	r.mu.Unlock()
	if r.Breakers == nil || pass == nil {
		return nil
	}
	report := session.BreakerReport{
		ID: fmt.Sprintf("%s/%d", activityKey(r.info), revision), Breaker: r.breaker(), BreakerPass: *pass,
		Outcome: failures.CountsAsSuccess, Category: f.Category, Message: f.Message,
	}
	if f.Category != "" {
		report.Outcome = report.Breaker.Weigh(f.Category)
	}
	if report.Outcome == failures.Neutral && report.Holder == "" {
		return nil
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportLimit)
	defer cancel()
	answer, err := r.Breakers.Report(bounded, report)
	if err != nil {
		activity.GetLogger(ctx).Warn("the breaker did not get the report on the provider", "breaker", report.Breaker.Name, "error", err)
		return nil
	}
	if f.Category == "" { // a probe has ended with it, and the round continues
		r.pass(session.BreakerPass{Generation: answer.State.Generation})
	}
	return &answer.View
}

// restOutage waits until an attempt may continue that has met an outage. In a short outage it
// keeps the agent's slot; in one that lasts it gives the slot back, in a RecoverableError
// that has Temporal start the next execution after the wait. Once the team's patience is
// over, the round fails or its session is told.
func (r *round) restOutage(ctx context.Context, o session.Outage) error {
	patience := o.PatienceUntil(r.session.team.Retry.WaitsOut())
	for {
		now := r.Clock()
		if !o.Noticed && (r.in.Outage == OutageOver || !now.Before(patience)) {
			return r.patienceOver(ctx, o)
		}
		until := o.Until
		if !o.Noticed && patience.Before(until) {
			until = patience
		}
		left := min(until.Sub(now), session.MaxRetryAfter.Std())
		lasts := until.Sub(o.Since) >= r.holdSlot()
		switch {
		case left <= 0:
			return nil
		case lasts && r.signalLongOutage(ctx, &o): // the session knows of a wait without a worker
			r.giveBack(ctx)
			return recoverable(o.Failure, left)
		case lasts:
			left = min(left, signalEvery)
		}
		r.setProgress(o.String())
		if err := r.sleep(ctx, left); err != nil {
			return err
		}
	}
}

// signalLongOutage tells the session of an outage that lasts, so that a session that ends can cut
// the round's waits short, and later of another cause of it, so that the notice to people
// has that. It returns false if that has to be tried again.
func (r *round) signalLongOutage(ctx context.Context, o *session.Outage) bool {
	now, cause := r.Clock().UTC(), o.Failure.Category
	if r.Signals == nil || o.Told == cause || o.Told != "" && now.Sub(o.ToldAt) < noticeEvery {
		return true
	}
	r.announcing.Wait() // the end of an outage before is told first
	news := OutageNews{Since: o.Since, Failure: session.AttemptFailure{Category: cause, Message: o.Failure.Message}}
	if err := r.signalOutage(ctx, news); err != nil {
		activity.GetLogger(ctx).Warn("the session could not be notified of a wait", "error", err)
		return false
	}
	o.Told, o.ToldAt = cause, now
	r.changeLog(func(l *session.RoundLog) {
		told := *o
		l.Outage = &told
	})
	if err := r.putRecord(); err != nil { // told again, at worst
		activity.GetLogger(ctx).Warn("the session's notification is not recorded yet", "error", err)
	}
	return true
}

// signalOutage signals once that an outage lasts or is over.
func (r *round) signalOutage(ctx context.Context, news OutageNews) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), signalLimit)
	defer cancel()
	news.AssignmentID, news.Total = r.in.AssignmentID, r.spender.total()
	return r.Signals.Outage(bounded, news)
}

func (r *round) holdSlot() time.Duration {
	if r.HoldSlot > 0 {
		return r.HoldSlot
	}
	return holdSlot
}

// sleep waits, or hands the round over at once when the worker stops: nothing is at work.
func (r *round) sleep(ctx context.Context, d time.Duration) error {
	return sleepUnless(ctx, d, activity.GetWorkerStopChannel(ctx))
}

// patienceOver ends the round, or only the activity: then people are notified, and a
// later activity continues with the same attempt.
func (r *round) patienceOver(ctx context.Context, o session.Outage) error {
	if r.session.team.Retry.OnOutage == spec.OutageFail {
		r.spender.begin(r.attemptKey(), nil)
		r.count(ctx, o.Failure, session.AttemptReport{
			Agent: o.Agent, Usage: r.spender.spent(), Left: o.Files, Diff: r.diff(ctx, o.Files), StartedAt: o.Since,
		})
		return r.giveUp(ctx, o.Failure)
	}
	r.giveBack(ctx)
	if err := r.writeRecord(ctx); err != nil {
		return err
	}
	return providerOutage(o, r.spender.total())
}

// providerOutage ends an activity whose session is to notify people.
func providerOutage(o session.Outage, total cost.Usage) error {
	stop := OutageStop{Since: o.Since, Until: o.Until, Failure: o.Failure, Waits: o.Waits, Total: total}
	stop.Failure.Output = ""
	return temporal.NewApplicationErrorWithOptions(textfmt.Shorten(o.String(), session.MaxMessage), session.ProviderOutage,
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{stop}})
}

// progressed ends the outage, if there is one. answered: the provider has just answered.
func (r *round) progressed(ctx context.Context, answered bool) {
	o := r.outage()
	if o == nil {
		return
	}
	logger := activity.GetLogger(ctx)
	logger.Info("the "+o.Failure.Category.Awaited()+" is available again", "away_since", o.Since, "waits", o.Waits)
	r.changeLog(func(l *session.RoundLog) { l.Outage = nil })
	if err := r.putRecord(); err != nil {
		logger.Warn("the end of the outage is not recorded yet", "error", err)
	}
	r.announcing.Go(func() { r.announce(ctx, *o, answered) })
}

// announce tells the breaker that an outage is over, and the workflow if that knows of
// it. The workflow learns it from the round's end, too.
func (r *round) announce(ctx context.Context, o session.Outage, answered bool) {
	logger := activity.GetLogger(ctx)
	if r.Breakers != nil && answered {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
		view, err := r.Breakers.Read(bounded, r.breaker().Name)
		cancel()
		if err == nil && (view.State.Failures > 0 || view.State.Open) {
			r.reportProvider(ctx, session.AttemptFailure{})
		}
	}
	for wanted := (o.Told != "" || o.Noticed) && r.Signals != nil; wanted; wanted = r.sleep(ctx, signalEvery) == nil {
		err := r.signalOutage(ctx, OutageNews{Over: true})
		if err == nil {
			return
		}
		logger.Warn("the session could not be notified of the end of the outage", "error", err)
	}
}

// counted turns an error of the agent's side that says nothing of itself into a failure
// of the attempt. Errors of the store, and of the round's own end, stay what they are.
func counted(err error) error {
	var app *temporal.ApplicationError
	switch _, failed := asFailure(err); {
	case err == nil, failed, errors.As(err, &app), errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrCorrupt), errors.Is(err, session.ErrFenced):
		return err
	}
	return failures.Failf(failures.Unknown, "%s", err)
}
