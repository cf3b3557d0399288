package cli

import (
	"cmp"
	"context"
	"errors"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/team"
	"github.com/maestro-hive/maestro/internal/temporalio"
	"github.com/maestro-hive/maestro/workflows"
)

// queryPatience bounds the wait for a worker's answer where the store is not at
// hand.
const queryPatience = 5 * time.Second

// watcher looks at one session: in Temporal, and in the store if there is one.
type watcher struct {
	conn    *temporalio.Connection
	store   *store.Store // nil: not at hand
	session string
	now     func() time.Time
}

// key is what the store knows the session by.
func (w *watcher) key() team.SessionKey {
	return team.SessionKey{Namespace: w.conn.Namespace, Session: w.session}
}

// view is what is known of a session.
type view struct {
	team.Status
	// Notes says, a sentence each, what a person should know about the session
	// besides its status: that nobody serves it, that its history is gone.
	Notes []string
	RunID string
	// Requirement is its first words.
	Requirement string
	// mirrored: it is from the session's execution_state.json.
	mirrored bool
	// faults says why a session was not admitted.
	faults []string
	// revision is the mirror's, and limit and spent are the session's budget, where
	// there is one.
	revision int64
	limit    team.Cap
	spent    team.Amount
	// live has the attempts at work, as Temporal knows them.
	live map[team.AssignmentID]liveAttempt
}

// liveAttempt is an attempt at work: its number in its round, zero where no heartbeat
// has told it yet, and when it began.
type liveAttempt struct {
	number int
	since  time.Time
}

// facts is what the sources have said.
type facts struct {
	// description is nil for a session that Temporal does not know.
	description *workflowservice.DescribeWorkflowExecutionResponse
	// mirrored is nil where the store is not at hand or does not know it.
	mirrored *team.Execution
	// ledger is nil where nothing is mirrored.
	ledger *budget.Ledger
	// unreadable says why what is mirrored cannot be read at the moment.
	unreadable error
	// lag says in what the mirror is behind, wait what the session needs the
	// store for; each is empty where there is nothing to say.
	lag, wait string
	// queried is a worker's answer, asked for only where nothing is mirrored.
	queried *team.Status
	// end is how a closed session that did not complete ended.
	end error
	// idle lists the queues that hold work and that nobody polls.
	idle []string
}

// behind tells whether the mirror is still that of an earlier run of the session:
// the present one has yet to be admitted, or was refused.
func (f facts) behind() bool {
	return f.mirrored != nil && f.description != nil &&
		f.mirrored.RunID != f.description.GetWorkflowExecutionInfo().GetExecution().GetRunId()
}

// admitted tells whether a run of the session has begun. The store, where it is at
// hand, knows by then.
func (w *watcher) admitted(v view, run string) bool {
	return v.RunID == run && v.Status.Status != team.Admitted && (w.store == nil || v.mirrored)
}

// errUnknown says that neither Temporal nor the store knows a session.
var errUnknown = errors.New("unknown session")

// look gathers what is known of the session now. It writes no history.
func (w *watcher) look(ctx context.Context) (view, error) {
	var f facts
	var err error
	f.description, err = w.conn.WorkflowService().DescribeWorkflowExecution(ctx, describeRequest(w.conn.Namespace, w.session))
	if err != nil && !temporalio.NotFound(err) {
		return view{}, err
	}
	if err != nil {
		f.description = nil
	}
	f.mirrored, f.unreadable = w.mirrored(f.description)
	if f.mirrored != nil { // read before the ledger, which is then no older
		f.ledger = w.ledger()
	}
	if f.description == nil {
		if f.mirrored == nil {
			return view{}, cmp.Or(f.unreadable, errUnknown)
		}
		return merge(w.session, f), nil
	}
	if f.description.GetWorkflowExecutionInfo().GetType().GetName() != workflows.TeamSessionName {
		return view{}, usagef("%s is a workflow, but no session of Maestro's", w.session)
	}
	running := f.description.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	if f.mirrored == nil {
		f.queried = w.query(ctx)
	}
	f.lag, f.wait = lag(f, w.now()), storeWait(f)
	if running {
		f.idle = w.idleQueues(ctx, f)
	} else if f.behind() || f.mirrored == nil || !f.mirrored.Status.Status.Closed() {
		f.end = w.conn.GetWorkflow(ctx, w.session, "").Get(ctx, nil)
	}
	return merge(w.session, f), ctx.Err()
}

// lookWithin is a look that is given up after a while.
func (w *watcher) lookWithin(ctx context.Context, patience time.Duration) (view, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return w.look(ctx)
}

// mirrored reads the session's execution_state.json, if it is in this store.
func (w *watcher) mirrored(d *workflowservice.DescribeWorkflowExecutionResponse) (*team.Execution, error) {
	if w.store == nil {
		return nil, nil
	}
	if owner := memo[string](d, workflows.MemoStore); owner != "" && owner != w.store.ID() {
		return nil, nil
	}
	e, err := w.store.Execution(w.key())
	switch {
	case errors.Is(err, team.ErrNotFound), errors.Is(err, team.ErrCorrupt):
		return nil, nil // the session itself goes on without its mirror
	case err != nil:
		return nil, err
	}
	return &e, nil
}

// ledger reads the session's ledger; nil where it cannot be read, which `checkpoints
// verify` explains.
func (w *watcher) ledger() *budget.Ledger {
	l, err := w.store.Ledger(w.key())
	if err != nil {
		return nil
	}
	return &l
}

// query asks a worker; nil if none answers in time.
func (w *watcher) query(ctx context.Context) *team.Status {
	bounded, cancel := context.WithTimeout(ctx, queryPatience)
	defer cancel()
	answer, err := w.conn.QueryWorkflow(bounded, w.session, "", workflows.StatusQuery)
	if err != nil {
		return nil
	}
	var s team.Status
	if err := answer.Get(&s); err != nil || s.Session == "" {
		return nil
	}
	return &s
}

// idleQueues lists the session's queues that hold work and that nobody polls.
func (w *watcher) idleQueues(ctx context.Context, f facts) []string {
	var idle []string
	info := f.description.GetWorkflowExecutionInfo()
	offered := w.offeredQueues(ctx, f)
	asked := map[string]bool{}
	unserved := func(queue string, kind enumspb.TaskQueueType) bool {
		asked[queue] = true
		return (offered != nil && !offered[queue]) || w.unpolled(ctx, queue, kind)
	}
	if f.description.GetPendingWorkflowTask() != nil && unserved(info.GetTaskQueue(), enumspb.TASK_QUEUE_TYPE_WORKFLOW) {
		idle = append(idle, info.GetTaskQueue())
	}
	for _, p := range f.description.GetPendingActivities() {
		queue := p.GetActivityOptions().GetTaskQueue().GetName()
		if queue == "" || asked[queue] || p.GetState() != enumspb.PENDING_ACTIVITY_STATE_SCHEDULED {
			continue
		}
		if unserved(queue, enumspb.TASK_QUEUE_TYPE_ACTIVITY) {
			idle = append(idle, queue)
		}
	}
	return idle
}

// offeredQueues are the queues that the store's live workers serve; nil where
// the session's store is not at hand. A worker that ended is missed here at
// once, while Temporal lists its pollers for a while.
func (w *watcher) offeredQueues(ctx context.Context, f facts) map[string]bool {
	if w.store == nil || memo[string](f.description, workflows.MemoStore) != w.store.ID() {
		return nil
	}
	offers, err := w.store.Offers(ctx)
	if err != nil {
		return nil
	}
	queues := map[string]bool{}
	for _, o := range offers {
		if !o.Live(w.now()) {
			continue
		}
		queues[team.WorkflowQueue(w.store.ID())] = true
		for agent := range o.Agents {
			queues[team.AgentQueue(w.store.ID(), agent)] = true
		}
	}
	return queues
}

// pollerAge is the age at which a poller that Temporal still lists is gone: a
// poll lasts a minute.
const pollerAge = 70 * time.Second

// unpolled tells whether nobody asks for the work in a queue. Where Temporal
// does not say, somebody may.
func (w *watcher) unpolled(ctx context.Context, queue string, kind enumspb.TaskQueueType) bool {
	answer, err := w.conn.DescribeTaskQueue(ctx, queue, kind)
	if err != nil {
		return false
	}
	for _, p := range answer.GetPollers() {
		if w.now().Sub(p.GetLastAccessTime().AsTime()) < pollerAge {
			return false
		}
	}
	return true
}

// memo reads a value from a session's memo; its zero where it is not there.
func memo[T any](d *workflowservice.DescribeWorkflowExecutionResponse, key string) T {
	return memoOf[T](d.GetWorkflowExecutionInfo(), key)
}

func memoOf[T any](info *workflowpb.WorkflowExecutionInfo, key string) T {
	var value, none T
	payload, ok := info.GetMemo().GetFields()[key]
	if !ok || converter.GetDefaultDataConverter().FromPayload(payload, &value) != nil {
		return none
	}
	return value
}

// heartbeat reads what a round last told Temporal.
func heartbeat(p *workflowpb.PendingActivityInfo) (activities.Heartbeat, bool) {
	var h activities.Heartbeat
	if p.GetHeartbeatDetails() == nil || converter.GetDefaultDataConverter().FromPayloads(p.GetHeartbeatDetails(), &h) != nil {
		return h, false
	}
	return h, true
}

// notAdmitted reads the faults out of the error of a session that was refused.
func notAdmitted(err error) ([]string, bool) {
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.Type() != team.NotAdmitted {
		return nil, false
	}
	var faults []string
	if app.HasDetails() && app.Details(&faults) == nil && len(faults) > 0 {
		return faults, true
	}
	return []string{app.Message()}, true
}

// helpNeeded reads the help requests out of a session's error.
func helpNeeded(err error) []team.HelpRequest {
	var app *temporal.ApplicationError
	var help []team.HelpRequest
	if errors.As(err, &app) && app.Type() == team.HelpNeeded && app.HasDetails() && app.Details(&help) == nil {
		return help
	}
	return nil
}

func describeRequest(namespace, session string) *workflowservice.DescribeWorkflowExecutionRequest {
	return &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: session},
	}
}
