package breaker

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strconv"

	"go.temporal.io/sdk/workflow"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// remembered is the number of applied updates that a breaker recognizes after it has continued as
// new. Within one run, Temporal recognizes all of them.
const remembered = 1000

// Input is the whole input of a breaker's workflow, also when it continues as new.
type Input struct {
	Store string `json:"store"`
	View
	// Applied has a short hash of each of the last updates that counted, oldest first.
	Applied []string `json:"applied,omitempty"`
}

// Workflow is a breaker: one machine's state, for all sessions of a store. machine.go decides when it opens and closes.
//
// Only updates change it. The effect of an acknowledged update is in the memo, which [Client.Read]
// reads. A repeated update with the same id, also one that is sent to a later run, is answered
// without effect. The workflow never completes: when its history is long, it continues as new
// between two updates, with its complete state.
func Workflow(ctx workflow.Context, in Input) error {
	e := &running{Input: in}
	if e.Since.IsZero() {
		e.Since = workflow.Now(ctx).UTC()
	}
	e.Settings = e.Settings.For(e.Name)
	if err := e.handle(ctx); err != nil {
		return err
	}
	err := workflow.Await(ctx, func() bool {
		return workflow.GetInfo(ctx).GetContinueAsNewSuggested() && workflow.AllHandlersFinished(ctx)
	})
	if err != nil {
		return err
	}
	return workflow.NewContinueAsNewError(ctx, WorkflowName, e.Input)
}

// running is a running breaker.
type running struct{ Input }

func (e *running) handle(ctx workflow.Context) error {
	err := workflow.SetQueryHandlerWithOptions(ctx, StateQuery, func() (View, error) { return e.View, nil },
		workflow.QueryHandlerOptions{Description: "The breaker's state and settings."})
	if err != nil {
		return err
	}
	return cmp.Or(
		on(ctx, ReportUpdate, "The outcome of a round; sent by workers.", e.report,
			func(r session.BreakerReport) error { return checkReport(e.Name, r) }),
		on(ctx, AcquireUpdate, "Requests permission to run a round; sent by workers.", e.acquire,
			func(r AcquireRequest) error { return checkAcquire(e.Name, r) }),
		on(ctx, RenewUpdate, "Extends a probe's lease; sent by workers.", e.renew, checkRenew),
		on(ctx, TripUpdate, `Opens the breaker manually: rounds of its agents wait. Paste {"by":"your name","why":"the reason","for":"1h"}; without "for" it stays open until it is reset.`,
			e.trip, checkTrip),
		on(ctx, ResetUpdate, `Closes the breaker manually: rounds of its agents continue. Paste {"by":"your name","why":"the reason"}.`,
			e.reset, func(ResetRequest) error { return nil }),
	)
}

// on registers an update with its validator.
func on[T any](ctx workflow.Context, name UpdateName, description string, apply func(workflow.Context, T) (Answer, error),
	check func(T) error,
) error {
	return workflow.SetUpdateHandlerWithOptions(ctx, string(name), apply, workflow.UpdateHandlerOptions{
		Validator: check, Description: description,
	})
}

func (e *running) report(ctx workflow.Context, r session.BreakerReport) (Answer, error) {
	return e.once(ctx, r.ID, func(random float64) Effect {
		e.Settings = r.Breaker
		return e.apply(ctx, r, random)
	})
}

func (e *running) acquire(ctx workflow.Context, r AcquireRequest) (Answer, error) {
	e.Settings = r.Breaker
	return e.answer(ctx, e.apply(ctx, r, 0))
}

func (e *running) renew(ctx workflow.Context, r RenewRequest) (Answer, error) {
	return e.answer(ctx, e.apply(ctx, r, 0))
}

func (e *running) trip(ctx workflow.Context, r TripRequest) (Answer, error) {
	return e.once(ctx, workflow.GetCurrentUpdateInfo(ctx).ID, func(float64) Effect { return e.apply(ctx, r, 0) })
}

func (e *running) reset(ctx workflow.Context, r ResetRequest) (Answer, error) {
	return e.once(ctx, workflow.GetCurrentUpdateInfo(ctx).ID, func(float64) Effect { return e.apply(ctx, r, 0) })
}

// once applies an update if its id has not been applied. The id's hash also spreads cooldowns, so
// no event is needed for a random number.
func (e *running) once(ctx workflow.Context, id string, apply func(random float64) Effect) (Answer, error) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // never fails
	mark := strconv.FormatUint(h.Sum64(), 36)
	if slices.Contains(e.Applied, mark) {
		return e.answer(ctx, Ignored)
	}
	effect := apply(float64(h.Sum64()>>11) / (1 << 53))
	e.Applied = append(e.Applied, mark)
	e.Applied = e.Applied[max(0, len(e.Applied)-remembered):]
	return e.answer(ctx, effect)
}

// apply runs the state machine.
func (e *running) apply(ctx workflow.Context, event Event, random float64) Effect {
	var effect Effect
	e.State, effect = Apply(e.State, e.Settings, event, workflow.Now(ctx).UTC(), random)
	return effect
}

// answer writes the breaker's state to its memo, in the same workflow task that acknowledges the
// update.
func (e *running) answer(ctx workflow.Context, effect Effect) (Answer, error) {
	if effect == Applied || effect == Leased {
		if err := workflow.UpsertMemo(ctx, map[string]any{MemoKey: e.View}); err != nil {
			return Answer{}, err
		}
	}
	return Answer{Effect: effect, View: e.View}, nil
}
