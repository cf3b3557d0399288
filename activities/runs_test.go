package activities_test

import (
	"context"
	"fmt"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// testRun is the Temporal run of all activities in the test environment.
const testRun = "default-test-run-id"

// runs is the database as one of several Temporal runs reaches it: the test environment has the same run for all. A run that
// was not admitted is a Temporal reset.
type runs struct {
	activities.State
	number int
}

func (r runs) id(temporalRun string) string {
	if r.number < 2 {
		return temporalRun
	}
	return fmt.Sprint(temporalRun, "-", r.number)
}

func (r runs) Admit(ctx context.Context, a state.Admission) (int64, error) {
	a.TemporalRun = r.id(a.TemporalRun)
	if a.OriginalRun == "" || a.OriginalRun == testRun {
		a.OriginalRun = a.TemporalRun
	}
	return r.State.Admit(ctx, a)
}

func (r runs) Enter(ctx context.Context, s session.Key, temporalRun string) (int64, error) {
	return r.State.Enter(ctx, s, r.id(temporalRun))
}

func (r runs) IsFenced(ctx context.Context, s session.Key, temporalRun string) (bool, error) {
	return r.State.IsFenced(ctx, s, r.id(temporalRun))
}

func (r runs) PutBoundary(ctx context.Context, b state.Boundary) ([]session.Request, bool, error) {
	b.TemporalRun = r.id(b.TemporalRun)
	return r.State.PutBoundary(ctx, b)
}

func (r runs) OpenRound(ctx context.Context, o state.RoundOrder) (state.OpenedRound, error) {
	o.TemporalRun = r.id(o.TemporalRun)
	return r.State.OpenRound(ctx, o)
}

func (r runs) Undo(ctx context.Context, s session.Key, temporalRun string, ids []spec.AssignmentID) error {
	return r.State.Undo(ctx, s, r.id(temporalRun), ids)
}

func (r runs) Merge(ctx context.Context, s session.Key, phase, temporalRun, activity string,
	change func(*session.MergeLog),
) error {
	return r.State.Merge(ctx, s, phase, r.id(temporalRun), activity, change)
}
