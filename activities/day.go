package activities

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/failpoint"
	"github.com/maestro-hive/maestro/internal/team"
)

// Days knows the daily budgets of the store's teams. Every call takes at most as
// long as its context allows; an error means that Temporal, or a worker that
// answers for the budget, could not be reached.
type Days interface {
	// Read returns a team's day as of its last acknowledged change; one without
	// a date where nobody has drawn.
	Read(ctx context.Context, name string) (budget.DayView, error)
	// Draw asks for a part of a team's day, or gives some back; again under the
	// same id, it counts once.
	Draw(ctx context.Context, id, name string, d budget.Draw) (budget.Drawing, error)
}

// The rhythm of drawing from a day.
const (
	// giveBackLimit bounds what a round, or a session that ends, spends on giving
	// back. What is not given back by then is lost to others until midnight, or
	// until the session draws again.
	giveBackLimit = 2 * time.Second
	// drawAnew is after how many looks at a day, at the latest, a call that waits
	// for other sessions asks again.
	drawAnew = 10
)

// draw gets from the team's day what a call needs, and then sets it aside. It
// waits while other sessions may give back what is missing, and for the day's
// workflow like for a store: nothing is spent that was not granted. It returns
// done false where the ledger has to be asked once more.
func (b *book) draw(ctx context.Context, seq int64, plan team.CallPlan, d budget.Draw) (verdict budget.Verdict, done bool, err error) {
	d.Session, d.Agent = b.scene.key.Session, plan.Agent
	drawing, err := b.drawOnce(ctx, d)
	if err != nil {
		return verdict, false, err
	}
	failpoint.Here("drawn, not in the ledger")
	var warnings []budget.Warning
	err = b.persist(ctx, func() error {
		return b.Ledgers.UpdateLedger(b.scene.key, func(l *budget.Ledger) error {
			warnings = l.Take(drawing)
			if drawing.Effect == budget.Drawn {
				verdict = l.Reserve(b.in.AssignmentID, seq, drawing.Cut(d, plan.Want), plan.Least, b.Clock().UTC())
			}
			return nil
		})
	})
	warnOfDay(ctx, b.scene.key, b.scene.team.Name, warnings)
	switch {
	case err != nil:
	case drawing.Effect == budget.DrawRefused:
		d.Least = drawing.Least
		verdict = budget.Verdict{Scope: budget.DayScope, Refused: drawing.Refusal(b.scene.team.Name), Draw: &d}
		done = true
	case drawing.Effect == budget.DrawWaits:
		d.Want, d.Least = drawing.Want, drawing.Least
		err = b.untilPromised(ctx, d)
	case drawing.Effect == budget.OtherDay:
		b.say(fmt.Sprintf("waiting: by this worker's clock it is %s, and by Temporal's %s", d.Date, drawing.Allowance.Date))
		err = sleep(ctx, budgetWaitMax)
	default:
		done = verdict.Draw == nil // else another call of the session was faster
	}
	return verdict, done, err
}

// drawOnce sends a draw until it is answered.
func (b *book) drawOnce(ctx context.Context, d budget.Draw) (drawing budget.Drawing, err error) {
	id, name := b.updateID("draw"), b.scene.team.Name
	err = b.untilAnswered(ctx, "the daily budget of team "+name+" does not answer", func(ctx context.Context) error {
		drawing, err = b.Days.Draw(ctx, id, name, d)
		return err
	})
	return drawing, err
}

// untilPromised waits until it makes sense to draw again: something was given
// back, or the day has ended.
func (b *book) untilPromised(ctx context.Context, d budget.Draw) error {
	name := b.scene.team.Name
	b.say(fmt.Sprintf("waiting: what is left of the daily budget of team %s is granted to sessions at work", name))
	for range drawAnew {
		if err := sleep(ctx, budgetWaitMax+rand.N(budgetWaitMax)); err != nil { //nolint:gosec // spreads looks; guards nothing
			return err
		}
		bounded, cancel := context.WithTimeout(ctx, readLimit)
		view, err := b.Days.Read(bounded, name)
		cancel()
		if now := b.Clock(); err == nil && view.At(now).Promises(d.Date, d.Want, d.Least) {
			return nil
		}
	}
	return nil
}

// warnOfDay tells that a daily budget is nearly spent.
func warnOfDay(ctx context.Context, key team.SessionKey, name string, warnings []budget.Warning) {
	for _, w := range warnings {
		activity.GetLogger(ctx).Warn("a daily budget is nearly spent", "team", name,
			"at", w.At, "tokens", w.Spent.Tokens, "usd", w.Spent.USD.String())
	}
}

// giveBackDay gives back what the session was granted of its team's day and does
// not hold: a round that ends may be the session's last, and others may wait.
func (r *round) giveBackDay(ctx context.Context) {
	if r.scene.team.Budget.Daily == (team.Cap{}) {
		return
	}
	returnsOf(r.Days, r.Ledgers, r.Clock).giveBack(ctx, r.scene.key, r.scene.team.Name, r.agent())
}

// giveBackDay does so for a session that ends.
func (b *Boundaries) giveBackDay(ctx context.Context, key team.SessionKey, name string) {
	returnsOf(b.Days, b.Ledgers, b.Clock).giveBack(ctx, key, name, "")
}

// returns gives parts of daily budgets back.
type returns struct {
	days    Days
	ledgers Ledgers
	now     time.Time
}

func returnsOf(days Days, ledgers Ledgers, clock Clock) returns {
	return returns{days, ledgers, clock().UTC()}
}

// giveBack also works when the activity's own time is over. The ledger gives up
// what it has before the day hears of it; if that fails, nobody has it until
// midnight or until the session draws again.
func (b returns) giveBack(ctx context.Context, key team.SessionKey, name, agent string) {
	warnings, err := b.try(context.WithoutCancel(ctx), key, name, agent)
	warnOfDay(ctx, key, name, warnings)
	if err != nil {
		activity.GetLogger(ctx).Warn("what the session has not spent of its team's day stays granted to it", "team", name, "error", err)
	}
}

func (b returns) try(ctx context.Context, key team.SessionKey, name, agent string) (warnings []budget.Warning, err error) {
	stored, err := b.ledgers.Ledger(key)
	if err != nil {
		return nil, err
	}
	if _, ok := stored.GiveBack(b.now); !ok {
		return nil, nil
	}
	var draw budget.Draw
	ok := false
	if err := b.ledgers.UpdateLedger(key, func(l *budget.Ledger) error {
		draw, ok = l.GiveBack(b.now)
		draw.Session, draw.Agent = key.Session, agent
		draw.Largest, _ = l.Largest(agent)
		return nil
	}); err != nil || !ok {
		return nil, err
	}
	failpoint.Here("given up, not given back")
	bounded, cancel := context.WithTimeout(ctx, giveBackLimit)
	defer cancel()
	id := fmt.Sprintf("%s/give-back/%d", activityKey(activity.GetInfo(ctx)), b.now.UnixNano())
	drawing, err := b.days.Draw(bounded, id, name, draw)
	if err != nil {
		return nil, err
	}
	err = b.ledgers.UpdateLedger(key, func(l *budget.Ledger) error {
		warnings = l.Take(drawing)
		return nil
	})
	return warnings, err
}

// AwaitDayInput asks to wait until a team's day can pay for a call.
type AwaitDayInput struct {
	team.AssignmentID
	Team string `json:"team"`
	// Date is the day that could not pay; Least is what the call needs.
	Date  string      `json:"date"`
	Least team.Amount `json:"least"`
}

// DayWaits waits for daily budgets on behalf of sessions.
type DayWaits struct {
	Days  Days
	Clock Clock
}

// Await returns when the day has ended, or when something was added to it or given
// back that pays for the call. However long that takes, it adds next to nothing to
// the session's history. A stopping worker hands the wait over.
func (w *DayWaits) Await(ctx context.Context, in AwaitDayInput) error {
	poll := time.NewTimer(0)
	defer poll.Stop()
	for {
		select {
		case <-activity.GetWorkerStopChannel(ctx):
			return handedOver(errHandedOver)
		case <-ctx.Done():
			return temporal.NewCanceledError()
		case <-poll.C:
		}
		activity.RecordHeartbeat(ctx, Heartbeat{Progress: "waiting for the daily budget of team " + in.Team})
		bounded, cancel := context.WithTimeout(ctx, readLimit)
		view, err := w.Days.Read(bounded, in.Team)
		cancel()
		now := w.Clock()
		switch {
		case err != nil:
			activity.GetLogger(ctx).Warn("a daily budget that a session waits for cannot be read", "team", in.Team, "error", err)
		case view.At(now).Promises(in.Date, in.Least, in.Least):
			return nil
		}
		poll.Reset(pollLeast + rand.N(pollMost-pollLeast)) //nolint:gosec // spreads polls; guards nothing
	}
}
