package host

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/client"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/entity"
	"github.com/maestro-hive/maestro/internal/team"
	"github.com/maestro-hive/maestro/workflows"
)

// Days reads and changes the daily budgets of one store's teams. Every call takes
// at most as long as its context allows.
type Days struct {
	Temporal client.Client
	Store    string
}

// Read returns a team's day as of its last acknowledged update, without a worker
// and without a trace in its history; one without a date where nobody has drawn.
func (d *Days) Read(ctx context.Context, name string) (budget.DayView, error) {
	view := budget.DayView{Team: name}
	if _, err := entity.Memo(ctx, d.Temporal, workflows.DailyBudgetID(d.Store, name), workflows.MemoDay, &view); err != nil {
		return view, fmt.Errorf("read the daily budget of team %s: %w", name, err)
	}
	return view, nil
}

// Draw asks for a part of a team's day, or gives some back. It may be sent any
// number of times under one id.
func (d *Days) Draw(ctx context.Context, id, name string, r budget.Draw) (out budget.Drawing, err error) {
	err = d.update(ctx, name, id, workflows.DrawUpdate, r, &out)
	return out, err
}

// Raise adds to what a team may spend today. Sent again under its id, it counts once.
func (d *Days) Raise(ctx context.Context, id, name string, r workflows.RaiseDay) (out budget.DayView, err error) {
	err = d.update(ctx, name, id, workflows.RaiseDayUpdate, r, &out)
	return out, err
}

// update sends an update to a team's daily budget, which is started if it does not
// run, until it is answered or refused.
func (d *Days) update(ctx context.Context, name, id, update string, arg, out any) error {
	err := entity.Update(ctx, d.Temporal, entity.Workflow{
		ID: workflows.DailyBudgetID(d.Store, name), Queue: team.WorkflowQueue(d.Store), Name: workflows.DailyBudgetName,
		Input: workflows.DailyBudgetInput{Store: d.Store, Team: name}, Summary: "daily budget of team " + name,
	}, id, update, arg, out)
	if err != nil {
		return fmt.Errorf("%s of the daily budget of team %s: %w", update, name, err)
	}
	return nil
}
