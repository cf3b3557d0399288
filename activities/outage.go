package activities

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Signals sends reports of running rounds to the workflow of their session.
type Signals interface {
	// Outage reports that an outage of an assignment's agent lasts, or that it is
	// over. ctx is that of the round's activity.
	Outage(ctx context.Context, news OutageNews) error
}

const (
	// holdSlot is the default for how long a round in an outage keeps the agent's slot.
	holdSlot = time.Minute
	// signalLimit bounds one signal to the workflow, signalEvery is the wait between two
	// tries. A session gets another cause of an outage every noticeEvery at most: each
	// time adds to its history.
	signalLimit = 5 * time.Second
	signalEvery = 2 * time.Second
	noticeEvery = 10 * time.Minute
)

// OutageStop is the detail of a ProviderOutage error: the provider has failed for longer
// than the team's patience.
type OutageStop struct {
	// Since is when the outage began, Until when the attempt would continue.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Failure is the last one, without its output.
	Failure failures.Failure `json:"failure"`
	Waits   int              `json:"waits"`
	session.RoundReport
}

// waitsOut reports whether the round waits out a failure: failures of the provider or of the
// host use up no attempt.
func (r *round) waitsOut(f failures.Failure) bool {
	if f.Category == failures.Pending {
		return true
	}
	return f.MayPass() && r.session.team.Retry.PatienceOrDefault() > 0
}

// beginOutage notes durably a failure that is waited out, and reports it to the breaker. It returns
// a BreakerOpen error if the breaker is open then. f has no secrets. filled: the directory has
// the attempt's files; files is its manifest, if that is known.
func (r *round) beginOutage(ctx context.Context, f failures.Failure, filled bool, files spec.Digest) error {
	var outage session.Outage
	r.rows.change(func(log *session.RoundLog) {
		outage = log.Outage.After(f, r.rows.agent, r.Clock().UTC(), r.session.team.Retry.PatienceOrDefault(), r.Random.next())
		outage.FilesInPlace, outage.Files = filled, files
		log.Outage, log.AtWork, log.LostAtProgress = &outage, false, log.Lost
		log.Pause(r.Clock().UTC(), f)
	})
	r.exec.setProgress(outage.String())
	if err := r.rows.write(ctx); err != nil {
		return err
	}
	if outage.Pending() {
		activity.GetLogger(ctx).Info("the attempt waits for others", "for", f.Message, "until", outage.Until, "since", outage.Since)
		return nil
	}
	activity.GetLogger(ctx).Warn("the "+f.Category.Awaited()+" fails; the attempt waits and continues", "category", f.Category,
		"error", f.Message, "until", outage.Until, "since", outage.Since)
	open := r.breaker.reportProvider(ctx, &f)
	if open != nil && open.At(r.Clock()).State == session.BreakerIsOpen {
		return r.breakerOpen(ctx, open)
	}
	return nil
}

// waitInOutage waits until an attempt in an outage may continue. In a short outage it keeps the agent's
// slot. In a longer one it returns a RecoverableError, which frees the slot; Temporal starts the
// next execution after the wait. over: the team's patience is over, and people are not notified
// yet.
func (r *round) waitInOutage(ctx context.Context, outage session.Outage) (over bool, err error) {
	for {
		next, left := r.nextInOutage(outage, r.Clock())
		switch next {
		case notifyOrFail:
			return true, nil
		case tryAgain:
			return false, nil
		case giveSlotBack:
			if r.signalLongOutage(ctx, &outage) { // the session is informed of a wait without a worker
				r.breaker.giveBack(ctx)
				return false, recoverable(outage.Failure, left)
			}
			left = min(left, signalEvery)
		case keepSlot:
		}
		r.exec.setProgress(outage.String())
		if err := sleepUnlessStopped(ctx, left); err != nil {
			return false, err
		}
	}
}

// outageStep is what a round does next about an outage.
type outageStep int

const (
	// tryAgain: the wait is over.
	tryAgain outageStep = iota
	// keepSlot: the wait is short.
	keepSlot
	// giveSlotBack: the wait is long, and needs no worker.
	giveSlotBack
	// notifyOrFail: the team's patience is over, and people are not notified yet.
	notifyOrFail
)

// nextInOutage decides what the round does about an outage, and how long it waits.
func (r *round) nextInOutage(outage session.Outage, now time.Time) (outageStep, time.Duration) {
	if outage.Pending() {
		if left := outage.Until.Sub(now); left > 0 {
			return giveSlotBack, left
		}
		return tryAgain, 0
	}
	patienceEnds := outage.PatienceUntil(r.session.team.Retry.PatienceOrDefault())
	if !outage.Noticed && (r.in.Outage == OutageOver || !now.Before(patienceEnds)) {
		return notifyOrFail, 0
	}
	until := outage.Until
	if !outage.Noticed && patienceEnds.Before(until) {
		until = patienceEnds
	}
	left := until.Sub(now)
	lasts := until.Sub(outage.Since) >= cmp.Or(r.HoldSlot, holdSlot)
	switch {
	case left <= 0:
		return tryAgain, 0
	case lasts:
		return giveSlotBack, left
	}
	return keepSlot, left
}

// signalLongOutage signals an outage that lasts to the session, so that a session that ends can
// end the round's wait. It also signals another cause later, for the notice to people. It returns
// false if the signal must be repeated.
func (r *round) signalLongOutage(ctx context.Context, outage *session.Outage) bool {
	now, cause := r.Clock().UTC(), outage.Failure.Category
	if r.Signals == nil || outage.Signalled == cause || outage.Signalled != "" && now.Sub(outage.SignalledAt) < noticeEvery {
		return true
	}
	r.exec.background.Wait() // the end of an earlier outage is signalled first
	news := OutageNews{Since: outage.Since, Failure: session.AttemptFailure{Category: cause, Message: outage.Failure.Message}}
	if err := r.signalOutage(ctx, news); err != nil {
		activity.GetLogger(ctx).Warn("the session could not be notified of a wait", "error", err)
		return false
	}
	outage.Signalled, outage.SignalledAt = cause, now
	r.rows.change(func(l *session.RoundLog) {
		told := *outage
		l.Outage = &told
	})
	r.rows.tryPut(ctx, "the session's notification is not recorded yet") // it may be signalled again
	return true
}

// signalOutage signals once that an outage lasts or is over.
func (r *round) signalOutage(ctx context.Context, news OutageNews) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), signalLimit)
	defer cancel()
	news.AssignmentID, news.RoundReport = r.exec.id, r.report()
	return r.Signals.Outage(bounded, news)
}

// breakerOpen returns the error of a round whose breaker is open.
func (r *round) breakerOpen(ctx context.Context, open *session.BreakerStatus) error {
	now, patience := r.Clock().UTC(), r.session.team.Retry.PatienceOrDefault()
	t := BreakerStop{Breaker: r.breaker.settings, Wait: open.WaitFor(now)}
	if t.Outage = r.rows.outage(); t.Outage != nil {
		t.Outage.Failure.Output = ""
		t.PatienceUntil = t.Outage.PatienceUntil(patience)
	} else if patience > 0 && open.Forced == nil {
		t.PatienceUntil = now.Add(patience.Std())
	}
	if err := r.rows.recordNotBegun(ctx); err != nil {
		return err
	}
	return temporal.NewApplicationErrorWithOptions(
		fmt.Sprintf("breaker %s is open: %s", t.Breaker.Name, t.Wait.Why), session.BreakerOpen,
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{t}})
}

// endOutage ends the outage, if there is one. answered: the provider has just answered.
func (r *round) endOutage(ctx context.Context, answered bool) {
	outage := r.rows.outage()
	if outage == nil {
		return
	}
	activity.GetLogger(ctx).Info("the wait for the "+outage.Failure.Category.Awaited()+" is over", "away_since", outage.Since,
		"waits",
		outage.Tries)
	r.rows.change(func(l *session.RoundLog) { l.Outage = nil })
	r.rows.tryPut(ctx, "the end of the outage is not recorded yet")
	r.exec.background.Go(func() { r.announceOutageEnd(ctx, *outage, answered) })
}

// announceOutageEnd reports the end of an outage to the breaker, and to the workflow if the outage was
// signalled. The end of the round also reports it to the workflow.
func (r *round) announceOutageEnd(ctx context.Context, outage session.Outage, answered bool) {
	if answered {
		r.breaker.reportProvider(ctx, nil)
	}
	for wanted := (outage.Signalled != "" || outage.Noticed) && r.Signals != nil; wanted; wanted = sleepUnlessStopped(ctx,
		signalEvery) == nil {
		err := r.signalOutage(ctx, OutageNews{Over: true})
		if err == nil {
			return
		}
		activity.GetLogger(ctx).Warn("the session could not be notified of the end of the outage", "error", err)
	}
}

// filesCleared notes that the files of an attempt in an outage were removed.
func (r *round) filesCleared(ctx context.Context) {
	if outage := r.rows.outage(); outage != nil && outage.FilesInPlace {
		outage.FilesInPlace = false
		r.rows.change(func(l *session.RoundLog) { l.Outage = outage })
		r.rows.tryPut(ctx, "the removal of the agent's files is not recorded yet")
	}
}

// providerOutage returns the error with which the session notifies people of an outage.
func providerOutage(o session.Outage, report session.RoundReport) error {
	stop := OutageStop{Since: o.Since, Until: o.Until, Failure: o.Failure, Waits: o.Tries, RoundReport: report}
	stop.Failure.Output = ""
	return temporal.NewApplicationErrorWithOptions(textfmt.Shorten(o.String(), session.MaxMessage), session.ProviderOutage,
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{stop}})
}
