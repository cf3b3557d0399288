package sessionstatus

import (
	"cmp"
	"context"
	"errors"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/workflows"
)

// Reader reads one session, from Temporal and from the store. It writes no history, and has no state.
type Reader struct {
	// Conn is nil if Temporal cannot be reached: then only the store is read.
	Conn *temporalutil.Connection
	// Namespace is that of the session if there is no connection.
	Namespace string
	Store     *store.Store
	// Session is the id.
	Session string
	// Now returns the current time.
	Now func() time.Time
}

// Key is the session's key in the store.
func (w *Reader) Key() session.Key {
	if w.Conn == nil {
		return session.Key{Namespace: w.Namespace, Session: w.Session}
	}
	return session.Key{Namespace: w.Conn.Namespace, Session: w.Session}
}

// ErrUnknown reports that neither Temporal nor the store has the session.
var ErrUnknown = errors.New("session not found")

// OtherWorkflowError reports that the workflow with a session's id is not a session.
type OtherWorkflowError struct{ id string }

func (e *OtherWorkflowError) Error() string {
	return e.id + " is a workflow, but not a Maestro session"
}

// Admitted reports whether a run of the session, or one that continues it as new, was admitted. The store has its document by
// then.
func (w *Reader) Admitted(v Session, run string) bool {
	return (v.RunID == run || v.firstRun == run) && v.Status.Status != session.Admitted && v.stored
}

// Describe returns Temporal's description of the session: [ErrUnknown] if Temporal does not have
// it, an [OtherWorkflowError] if the id is that of another workflow.
func (w *Reader) Describe(ctx context.Context) (*workflowpb.WorkflowExecutionInfo, error) {
	d, err := w.description(ctx)
	info := d.GetWorkflowExecutionInfo()
	switch {
	case temporalutil.NotFound(err):
		return nil, ErrUnknown
	case err != nil:
		return nil, err
	case info.GetType().GetName() != workflows.TeamSessionName:
		return nil, &OtherWorkflowError{w.Session}
	}
	return info, nil
}

func (w *Reader) description(ctx context.Context) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return w.Conn.WorkflowService().DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: w.Conn.Namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: w.Session},
	})
}

// Kept reports whether the store has the session.
func (w *Reader) Kept(ctx context.Context) bool {
	_, err := w.Store.State.Execution(ctx, w.Key())
	return err == nil
}

// Look reads the current state of the session. It fails if Temporal cannot be reached, with
// [ErrUnknown] if neither Temporal nor the store has the session, and with an [OtherWorkflowError].
func (w *Reader) Look(ctx context.Context) (Session, error) {
	f := facts{away: w.Conn == nil}
	var err error
	if !f.away {
		f.description, err = w.description(ctx)
	}
	switch {
	case temporalutil.NotFound(err):
		f.description = nil
	case err != nil:
		return Session{}, err
	}
	info := f.info()
	f.document, f.unreadable = w.stored(ctx, Memo[string](info, workflows.MemoStore))
	if f.document != nil { // read before the costs, which are then no older
		f.account = w.account(ctx)
	}
	switch {
	case f.description == nil && f.document == nil:
		return Session{}, cmp.Or(f.unreadable, ErrUnknown)
	case f.description == nil:
		return merge(w.Session, f), nil
	case info.GetType().GetName() != workflows.TeamSessionName:
		return Session{}, &OtherWorkflowError{w.Session}
	}
	f.wait = storeWait(f)
	if info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		var silent error
		f.idle, silent = w.idleQueues(ctx, f)
		if f.stalled = w.stuck(ctx, f.description); f.stalled == "" && len(f.idle) == 0 {
			f.stalled = w.undelivered(f, silent)
		}
	} else if f.behind() || f.document == nil || !f.document.Status.Status.Closed() {
		f.end = w.Conn.GetWorkflow(ctx, w.Session, "").Get(ctx, nil)
	}
	return merge(w.Session, f), ctx.Err()
}

// account reads the session's costs and budgets; nil if they cannot be read.
func (w *Reader) account(ctx context.Context) *state.Account {
	a, err := w.Store.State.Account(ctx, w.Key())
	if err != nil {
		return nil
	}
	return &a
}

// Requests lists the open requests of the current run of a session, as of its newest boundary.
func (w *Reader) Requests(ctx context.Context) ([]session.Request, error) {
	var f facts
	var err error
	if f.description, err = w.description(ctx); err != nil {
		return nil, err
	}
	e, err := w.Store.State.Execution(ctx, w.Key())
	if f.document = &e; errors.Is(err, session.ErrNotFound) || err == nil && f.behind() {
		return nil, nil
	}
	return e.Help, err
}
