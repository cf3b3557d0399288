package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
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
	// Least is what the call needs.
	Least cost.Amount `json:"least"`
}

// BudgetWaits waits for budgets on behalf of sessions.
type BudgetWaits struct {
	State State
	Clock Clock
	// Random spreads the polls.
	Random Random
}

// Await returns when the budget may permit the call: it was raised, a reservation was
// released, an unsettled call was settled, or the day has ended. The duration of the wait
// adds almost no events to the session's history. A stopping worker hands the wait over.
// It needs the store only.
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
		ok, err := w.pays(ctx, sessionKey(activity.GetInfo(ctx)), in)
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
func (w *BudgetWaits) pays(ctx context.Context, key session.Key, in AwaitBudgetInput) (bool, error) {
	if in.Date != "" && budget.Date(w.Clock()) != in.Date {
		return true, nil
	}
	budgets, err := w.State.Budgets(ctx, state.Assignment{Key: key}, in.Team)
	if err != nil {
		return false, err
	}
	for _, b := range budgets {
		if b.Scope() == in.Scope {
			return b.Covers(in.Least), nil
		}
	}
	return true, nil // it was removed
}
