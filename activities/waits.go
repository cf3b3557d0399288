package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/breaker"
	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// pollLeast and pollMost bound the time between two looks of a wait at its breaker or its budget.
const (
	pollLeast = 2 * time.Second
	pollMost  = 5 * time.Second
)

// await looks until nothing is to be waited for. A look returns how long to wait before the next one, or zero. An error of a
// look that is to be followed by another one is logged. The time that passes adds no events to the session's history. A
// stopping worker hands the wait over.
func await(ctx context.Context, progress func() string, look func() (wait time.Duration, err error)) error {
	for {
		activity.RecordHeartbeat(ctx, Heartbeat{Progress: progress()})
		wait, err := look()
		switch {
		case wait == 0:
			return err
		case err != nil:
			activity.GetLogger(ctx).Warn("what a session waits for cannot be read", "wait", progress(), "error", err)
		}
		if err := sleepUnlessStopped(ctx, wait); err != nil {
			if ctx.Err() != nil {
				err = temporal.NewCanceledError()
			}
			return err
		}
	}
}

// AwaitInput is for a wait until an assignment's round may try again.
type AwaitInput struct {
	spec.AssignmentID
	Breaker spec.Breaker        `json:"breaker"`
	Wait    session.BreakerWait `json:"wait"`
}

// Awaited ends a wait.
type Awaited struct {
	// Lease is the lease of a round that is a probe; zero: the round may begin without
	// one.
	Lease session.BreakerPermit `json:"lease,omitzero"`
}

// BreakerWaits waits for breakers on behalf of sessions.
type BreakerWaits struct {
	Breakers Breakers
	// Heartbeats reports whether a wait is still wanted that is to get a lease; nil: it is.
	Heartbeats Heartbeats
	Clock      Clock
	// Random spreads the polls.
	Random Random
}

// Await returns when the breaker is closed, or when it is half-open and this wait
// has got a lease; the other waits continue.
func (bw *BreakerWaits) Await(ctx context.Context, in AwaitInput) (out Awaited, err error) {
	err = await(ctx, func() string { return in.Wait.String() }, func() (wait time.Duration, err error) {
		out, wait, err = bw.look(ctx, &in)
		return wait, err
	})
	return out, err
}

// look reads the breaker, and asks a half-open one for a lease. It returns how long to wait before the next look; zero: the wait
// is over. Waits do not all look at the end of the cooldown: the first one gets the lease, and the others read that.
func (bw *BreakerWaits) look(ctx context.Context, in *AwaitInput) (out Awaited, wait time.Duration, err error) {
	wait = bw.Random.between(pollLeast, pollMost)
	s, err := bw.Breakers.Read(ctx, in.Breaker.Name)
	now := bw.Clock()
	switch s = s.At(now); {
	case err != nil:
		return out, wait, err
	case s.State == session.BreakerClosed:
		return out, 0, nil
	case s.State == session.BreakerIsOpen:
		in.Wait = s.WaitFor(in.Wait.Since)
		if s.OpenUntil != nil {
			wait = min(wait, s.OpenUntil.Sub(now)+bw.Random.between(0, pollLeast))
		}
		return out, wait, nil
	case len(s.Probes) >= s.Settings.Probes:
		return out, wait, nil
	case !bw.wanted(ctx, in.Wait):
		return out, 0, newHandedOver(ErrUnwanted)
	}
	holder := activityKey(activity.GetInfo(ctx))
	answer, err := bw.Breakers.Acquire(ctx, in.Breaker, holder)
	switch {
	case err != nil:
		return out, wait, err
	case answer.Effect == breaker.Passed:
		return out, 0, nil
	case answer.Effect == breaker.Leased:
		out.Lease = session.BreakerPermit{Generation: answer.Generation, Holder: holder}
		return out, 0, nil
	}
	return out, wait, nil
}

// wanted reports whether the session still waits. A session that has ended its wait does not
// receive a lease, and the activity learns of that end only with a later heartbeat.
func (bw *BreakerWaits) wanted(ctx context.Context, wait session.BreakerWait) bool {
	err := bw.Heartbeats.Beat(ctx, Heartbeat{Progress: wait.String()})
	return !errors.Is(err, ErrUnwanted) && !errors.Is(err, ErrReplaced)
}

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
	// Random spreads the polls.
	Random Random
}

// Await returns when the budget may permit the call: it was raised, a reservation was
// released, an unsettled call was settled, or the day has ended. It needs the store only.
func (w *BudgetWaits) Await(ctx context.Context, in AwaitBudgetInput) error {
	progress := "waiting for the budget of " + budget.Label(in.Scope)
	return await(ctx, func() string { return progress }, func() (time.Duration, error) {
		wait := w.Random.between(pollLeast, pollMost)
		budgets, err := w.State.Budgets(ctx, state.Assignment{Key: sessionKey(activity.GetInfo(ctx))}, in.Team)
		if err == nil && in.pays(budgets) {
			wait = 0
		}
		return wait, err
	})
}

// pays reports whether the budget may permit the call. One that was removed does, and so does that of another day.
func (in AwaitBudgetInput) pays(budgets []budget.Budget) bool {
	for _, b := range budgets {
		if b.Scope() == in.Scope {
			return b.Day != in.Date || b.Covers(in.Least)
		}
	}
	return true
}
