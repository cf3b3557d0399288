package activities

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// AwaitBudgetInput is the input of AwaitBudgetName: a wait until a budget permits a
// call that it has refused.
type AwaitBudgetInput struct {
	spec.AssignmentID
	// Scope names the budget, and Team the session's team.
	Scope string `json:"scope"`
	Team  string `json:"team"`
	// Date is the day of a team's daily budget; empty: it is another budget.
	Date string `json:"date,omitempty"`
	// Since is when the session began to wait.
	Since time.Time `json:"since,omitzero"`
	// Least is what the call needs.
	Least cost.Amount `json:"least"`
}

// BudgetWaits waits for budgets on behalf of sessions.
type BudgetWaits struct {
	Ledgers Ledgers
	Clock   Clock
	// Random spreads the polls.
	Random Random
}

// Await returns when the budget may permit the call: it was raised, a reservation was
// released, an unsettled call was settled, or the day has ended. The duration of the wait
// adds almost no events to the session's history. A stopping worker hands the wait over.
// It needs the store only. Raises of the team's day during the wait are noted in the session's ledger, where they
// change no budget: people see there what let the session go on.
func (w *BudgetWaits) Await(ctx context.Context, in AwaitBudgetInput) error {
	poll := time.NewTimer(0)
	defer poll.Stop()
	for {
		select {
		case <-activity.GetWorkerStopChannel(ctx):
			return newHandedOver(errHandedOver)
		case <-ctx.Done():
			return temporal.NewCanceledError()
		case <-poll.C:
		}
		activity.RecordHeartbeat(ctx, Heartbeat{Progress: "waiting for the budget of " + budget.Label(in.Scope)})
		ok, err := w.pays(sessionKey(activity.GetInfo(ctx)), in)
		if err != nil {
			activity.GetLogger(ctx).Warn("a budget that a session waits for cannot be read", "budget", in.Scope, "error", err)
		}
		if ok {
			return nil
		}
		poll.Reset(w.Random.between(pollLeast, pollMost))
	}
}

// pays reports whether the budget may permit the call now.
func (w *BudgetWaits) pays(key session.Key, in AwaitBudgetInput) (bool, error) {
	if in.Date == "" {
		l, err := w.Ledgers.Ledger(key)
		return err == nil && l.MayPay(in.Scope, in.Least), err
	}
	if budget.Date(w.Clock()) != in.Date {
		return true, nil
	}
	day, err := w.Ledgers.Day(key.Namespace, in.Team)
	if errors.Is(err, session.ErrNotFound) { // the daily budget was removed
		return true, nil
	}
	if err != nil || !day.MayPay(in.Least) {
		return false, err
	}
	err = w.note(key, day.Raises, in.Since)
	return err == nil, err
}

// note records raises of the day since a time in the session's ledger.
func (w *BudgetWaits) note(key session.Key, raises []budget.Raise, since time.Time) error {
	raises = slices.DeleteFunc(slices.Clone(raises), func(r budget.Raise) bool { return r.When.Before(since) })
	if len(raises) == 0 {
		return nil
	}
	return w.Ledgers.UpdateLedger(key, func(l *budget.Ledger) error {
		for _, r := range raises {
			l.Raise(r)
		}
		return nil
	})
}
