package breaker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/entityworkflow"
)

// Client reads and changes the breakers of one store. Each call is limited only by its context.
type Client struct {
	Temporal client.Client
	Store    string
	// Changed is called with the state in each answer to a change; may be nil.
	Changed func(ctx context.Context, to session.BreakerStatus)
}

// Read returns the breaker as of its last acknowledged update, without a worker and without an
// event in its history. A breaker that does not run is closed.
func (c *Client) Read(ctx context.Context, name string) (View, error) {
	view := View{Name: name}
	if _, err := entityworkflow.Memo(ctx, c.Temporal, WorkflowID(c.Store, name), MemoKey, &view); err != nil {
		return view, fmt.Errorf("read breaker %s: %w", name, err)
	}
	return view, nil
}

// List returns the store's running breakers, sorted by name. A breaker that has just been created
// may be missing for a moment.
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

// Report delivers the outcome of a round. A repetition with the same id has no effect.
func (c *Client) Report(ctx context.Context, r session.BreakerReport) (Answer, error) {
	return c.update(ctx, r.Breaker.Name, r.Breaker, r.ID, ReportUpdate, r)
}

// Acquire requests a permission for a round. It may be repeated with another id: a holder never has
// more than one lease.
func (c *Client) Acquire(ctx context.Context, id string, b spec.Breaker, holder string) (Answer, error) {
	return c.update(ctx, b.Name, b, id, AcquireUpdate, AcquireRequest{Holder: holder, Breaker: b})
}

// Renew extends a lease; [Refused] if it has expired.
func (c *Client) Renew(ctx context.Context, id string, b spec.Breaker, holder string) (Answer, error) {
	return c.update(ctx, b.Name, b, id, RenewUpdate, RenewRequest{Holder: holder})
}

// Trip opens a breaker by hand.
func (c *Client) Trip(ctx context.Context, id, name string, r TripRequest) (Answer, error) {
	return c.update(ctx, name, spec.Breaker{}, id, TripUpdate, r)
}

// Reset closes a breaker by hand.
func (c *Client) Reset(ctx context.Context, id, name string, r ResetRequest) (Answer, error) {
	return c.update(ctx, name, spec.Breaker{}, id, ResetUpdate, r)
}

// update sends an update to a breaker, and starts the breaker if it does not run.
func (c *Client) update(ctx context.Context, name string, b spec.Breaker, id string, update UpdateName, arg any) (Answer, error) {
	var answer Answer
	err := entityworkflow.Update(ctx, c.Temporal, entityworkflow.Workflow{
		ID: WorkflowID(c.Store, name), Queue: spec.WorkflowQueue(c.Store), Name: WorkflowName,
		Input: Input{Store: c.Store, View: View{Name: name, Settings: b}}, Summary: "circuit breaker " + name,
	}, id, string(update), arg, &answer)
	if err != nil {
		return Answer{}, fmt.Errorf("%s breaker %s: %w", update, name, err)
	}
	if c.Changed != nil {
		c.Changed(ctx, answer.Status())
	}
	return answer, nil
}
