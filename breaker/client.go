package breaker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/team"
)

// retryWait is the wait before an update is sent again that met a breaker just
// as it continued as new.
const retryWait = 100 * time.Millisecond

// Client reads and changes the breakers of one store. Every call takes at most
// as long as its context allows.
type Client struct {
	Temporal client.Client
	Store    string
}

// Read returns the breaker as of its last acknowledged update, without a worker
// and without a trace in its history. A breaker that does not run is closed.
func (c *Client) Read(ctx context.Context, name string) (View, error) {
	closed := View{Name: name}
	d, err := c.Temporal.DescribeWorkflowExecution(ctx, WorkflowID(c.Store, name), "")
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return closed, nil
	}
	if err != nil {
		return closed, fmt.Errorf("read breaker %s: %w", name, err)
	}
	if d.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return closed, nil
	}
	return viewIn(name, d.GetWorkflowExecutionInfo())
}

// viewIn reads the view out of a breaker's memo; closed if it has none yet.
func viewIn(name string, info *workflowpb.WorkflowExecutionInfo) (View, error) {
	view := View{Name: name}
	payload, ok := info.GetMemo().GetFields()[MemoKey]
	if !ok {
		return view, nil
	}
	if err := converter.GetDefaultDataConverter().FromPayload(payload, &view); err != nil {
		return view, fmt.Errorf("read breaker %s: its memo: %w", name, err)
	}
	return view, nil
}

// List returns the store's running breakers, sorted by name. One that has just
// been made may be missing for a moment.
func (c *Client) List(ctx context.Context) ([]View, error) {
	var views []View
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", WorkflowName),
	}
	for {
		page, err := c.Temporal.ListWorkflow(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("list breakers: %w", err)
		}
		for _, e := range page.GetExecutions() {
			name, ours := NameOf(c.Store, e.GetExecution().GetWorkflowId())
			if !ours {
				continue
			}
			view, err := c.Read(ctx, name) // a listing lags behind
			if err != nil {
				return nil, err
			}
			views = append(views, view)
		}
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			slices.SortFunc(views, func(a, b View) int { return strings.Compare(a.Name, b.Name) })
			return views, nil
		}
	}
}

// Report delivers the outcome of a round. Delivered again under the same id, it
// counts once.
func (c *Client) Report(ctx context.Context, r team.BreakerReport) (Answer, error) {
	return c.update(ctx, r.Breaker.Name, r.Breaker, r.ID, ReportUpdate, r)
}

// Acquire asks to let a round through. It may be asked again under another id:
// a holder never has more than one lease.
func (c *Client) Acquire(ctx context.Context, id string, b team.Breaker, holder string) (Answer, error) {
	return c.update(ctx, b.Name, b, id, AcquireUpdate, AcquireRequest{Holder: holder, Breaker: b})
}

// Renew extends a lease; [Refused] if it has run out.
func (c *Client) Renew(ctx context.Context, id string, b team.Breaker, holder string) (Answer, error) {
	return c.update(ctx, b.Name, b, id, RenewUpdate, RenewRequest{Holder: holder})
}

// Trip opens a breaker by hand.
func (c *Client) Trip(ctx context.Context, id, name string, r TripRequest) (Answer, error) {
	return c.update(ctx, name, team.Breaker{}, id, TripUpdate, r)
}

// Reset closes a breaker by hand.
func (c *Client) Reset(ctx context.Context, id, name string, r ResetRequest) (Answer, error) {
	return c.update(ctx, name, team.Breaker{}, id, ResetUpdate, r)
}

// update sends an update to a breaker, which is started if it does not run.
func (c *Client) update(ctx context.Context, name string, b team.Breaker, id string, update UpdateName, arg any) (Answer, error) {
	for {
		answer, err := c.updateOnce(ctx, name, b, id, update, arg)
		if err == nil {
			return answer, nil
		}
		if ctx.Err() != nil || lasting(err) {
			return Answer{}, fmt.Errorf("%s breaker %s: %w", update, name, err)
		}
		timer := time.NewTimer(retryWait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return Answer{}, fmt.Errorf("%s breaker %s: %w", update, name, errors.Join(context.Cause(ctx), err))
		}
	}
}

func (c *Client) updateOnce(ctx context.Context, name string, b team.Breaker, id string, update UpdateName, arg any) (Answer, error) {
	workflowID := WorkflowID(c.Store, name)
	start := c.Temporal.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
		ID: workflowID, TaskQueue: team.WorkflowQueue(c.Store),
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            "circuit breaker " + name,
	}, WorkflowName, Input{Store: c.Store, View: View{Name: name, Settings: b}})
	handle, err := c.Temporal.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: start,
		UpdateOptions: client.UpdateWorkflowOptions{
			WorkflowID: workflowID, UpdateID: id, UpdateName: string(update), Args: []any{arg},
			WaitForStage: client.WorkflowUpdateStageCompleted,
		},
	})
	if err != nil {
		return Answer{}, err
	}
	var answer Answer
	err = handle.Get(ctx, &answer)
	return answer, err
}

// lasting tells whether an update would be refused again.
func lasting(err error) bool {
	var refused *temporal.ApplicationError
	var invalid *serviceerror.InvalidArgument
	var denied *serviceerror.PermissionDenied
	var nowhere *serviceerror.NamespaceNotFound
	return errors.As(err, &refused) || errors.As(err, &invalid) || errors.As(err, &denied) || errors.As(err, &nowhere)
}
