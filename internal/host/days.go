package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/team"
	"github.com/maestro-hive/maestro/workflows"
)

// drawAgain is the wait before an update is sent again that met a daily budget
// just as it continued as new.
const drawAgain = 100 * time.Millisecond

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
	e, err := d.Temporal.DescribeWorkflowExecution(ctx, workflows.DailyBudgetID(d.Store, name), "")
	var missing *serviceerror.NotFound
	switch {
	case errors.As(err, &missing):
		return view, nil
	case err != nil:
		return view, fmt.Errorf("read the daily budget of team %s: %w", name, err)
	}
	info := e.GetWorkflowExecutionInfo()
	payload, ok := info.GetMemo().GetFields()[workflows.MemoDay]
	if !ok || info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return view, nil
	}
	if err := converter.GetDefaultDataConverter().FromPayload(payload, &view); err != nil {
		return view, fmt.Errorf("read the daily budget of team %s: its memo: %w", name, err)
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
	for {
		err := d.updateOnce(ctx, name, id, update, arg, out)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || refused(err) {
			return fmt.Errorf("%s of the daily budget of team %s: %w", update, name, err)
		}
		timer := time.NewTimer(drawAgain)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%s of the daily budget of team %s: %w", update, name, errors.Join(context.Cause(ctx), err))
		}
	}
}

func (d *Days) updateOnce(ctx context.Context, name, id, update string, arg, out any) error {
	workflowID := workflows.DailyBudgetID(d.Store, name)
	start := d.Temporal.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
		ID: workflowID, TaskQueue: team.WorkflowQueue(d.Store),
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            "daily budget of team " + name,
	}, workflows.DailyBudgetName, workflows.DailyBudgetInput{Store: d.Store, Team: name})
	handle, err := d.Temporal.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: start,
		UpdateOptions: client.UpdateWorkflowOptions{
			WorkflowID: workflowID, UpdateID: id, UpdateName: update, Args: []any{arg},
			WaitForStage: client.WorkflowUpdateStageCompleted,
		},
	})
	if err != nil {
		return err
	}
	return handle.Get(ctx, out)
}

// refused tells whether an update would be refused again.
func refused(err error) bool {
	var app *temporal.ApplicationError
	var invalid *serviceerror.InvalidArgument
	var denied *serviceerror.PermissionDenied
	var nowhere *serviceerror.NamespaceNotFound
	return errors.As(err, &app) || errors.As(err, &invalid) || errors.As(err, &denied) || errors.As(err, &nowhere)
}
