// Package temporalfake is a Temporal in memory that has sessions without workers: it lists and describes them, starts others,
// and notes what they are sent.
package temporalfake

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/workflows"
)

// Temporal is the client of such a server. What it does not have panics.
type Temporal struct {
	client.Client
	// Takes decides on updates; nil: no worker takes one, so that callers send a signal in the end. Without an error the answer
	// of an update is its argument.
	Takes func(update string) error
	// Starts is called when a session is started, with the id of its run.
	Starts func(id, run string, input workflows.SessionInput)

	mu      sync.Mutex
	ids     []string
	has     map[string]*workflowpb.WorkflowExecutionInfo
	started []Message
	sent    []Message
	unread  map[string][]signal
}

// Message is what a session got: an update, a signal, its input or, without a content, a cancellation.
type Message struct {
	Session, Name string
	Content       any
}

// New returns a Temporal without sessions.
func New() *Temporal {
	return &Temporal{has: map[string]*workflowpb.WorkflowExecutionInfo{}, unread: map[string][]signal{}}
}

// Connection connects to the namespace default.
func (t *Temporal) Connection() *temporalutil.Connection {
	return &temporalutil.Connection{Client: t, Address: "temporal.test", Namespace: "default"}
}

// RunOf is the id of the run of a session, as that of statetest.Put.
func RunOf(id string) string { return "run of " + id }

// Put has a session be in a state, with a memo.
func (t *Temporal) Put(id string, status enumspb.WorkflowExecutionStatus, started time.Time, memo map[string]any) {
	fields := map[string]*commonpb.Payload{}
	for key, value := range memo {
		fields[key] = payloads(value).GetPayloads()[0]
	}
	info := &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: RunOf(id)}, FirstRunId: RunOf(id), Status: status,
		Type: &commonpb.WorkflowType{Name: workflows.TeamSessionName}, Memo: &commonpb.Memo{Fields: fields},
		StartTime: timestamppb.New(started),
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.has[id] == nil {
		t.ids = append(t.ids, id)
	}
	t.has[id] = info
}

// End has a session have completed.
func (t *Temporal) End(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.has[id].Status = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
}

// Forget has Temporal lose a session.
func (t *Temporal) Forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.has, id)
}

// Started are the sessions that were started since the last call, with their inputs.
func (t *Temporal) Started() []Message { return t.take(&t.started) }

// Sent is what sessions were sent since the last call.
func (t *Temporal) Sent() []Message { return t.take(&t.sent) }

func (t *Temporal) take(from *[]Message) (all []Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all, *from = *from, nil
	return all
}

func payloads(value any) *commonpb.Payloads {
	p, err := converter.GetDefaultDataConverter().ToPayloads(value)
	if err != nil {
		panic(err)
	}
	return p
}

// running is a session that runs, or the error that there is none. The caller holds the lock.
func (t *Temporal) running(id string) error {
	if t.has[id].GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return serviceerror.NewNotFound("no such workflow runs")
	}
	return nil
}

func (t *Temporal) note(id, name string, content any) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.running(id)
	if err == nil {
		t.sent = append(t.sent, Message{id, name, content})
	}
	return err
}

// SignalWorkflow keeps a signal that nobody reads.
func (t *Temporal) SignalWorkflow(_ context.Context, id, _, name string, content any) error {
	err := t.note(id, name, content)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.unread[id] = append(t.unread[id], signal{name, content})
	}
	return err
}

type signal struct {
	name    string
	content any
}

// UpdateWorkflow takes an update, or waits.
func (t *Temporal) UpdateWorkflow(ctx context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	if t.Takes == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err := t.Takes(o.UpdateName); err != nil {
		return nil, err
	}
	return taken{content: o.Args[0]}, t.note(o.WorkflowID, o.UpdateName, o.Args[0])
}

type taken struct {
	client.WorkflowUpdateHandle
	content any
}

func (u taken) Get(_ context.Context, into any) error {
	data, err := json.Marshal(u.content)
	if err == nil && into != nil {
		err = json.Unmarshal(data, into)
	}
	return err
}

// CancelWorkflow notes that a session is to end.
func (t *Temporal) CancelWorkflow(_ context.Context, id, _ string) error {
	return t.note(id, "cancel", nil)
}

// ExecuteWorkflow starts a session.
func (t *Temporal) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, _ any, args ...any,
) (client.WorkflowRun, error) {
	t.mu.Lock()
	taken := t.running(o.ID) == nil
	t.mu.Unlock()
	if taken {
		return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("taken", "", "")
	}
	in := args[0].(workflows.SessionInput)
	t.Put(o.ID, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, time.Now(), o.Memo)
	if t.Starts != nil {
		t.Starts(o.ID, RunOf(o.ID), in)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.started = append(t.started, Message{o.ID, workflows.TeamSessionName, in})
	return run{id: o.ID}, nil
}

// run is one that has completed, for who waits for its end.
type run struct {
	client.WorkflowRun
	id string
}

func (r run) GetID() string                    { return r.id }
func (r run) GetRunID() string                 { return RunOf(r.id) }
func (run) Get(_ context.Context, _ any) error { return nil }

// GetWorkflow returns the run of a session.
func (t *Temporal) GetWorkflow(_ context.Context, id, _ string) client.WorkflowRun {
	return run{id: id}
}

// ListWorkflow lists pages of the sessions that run, or of all, in the order of their puts.
func (t *Temporal) ListWorkflow(_ context.Context, in *workflowservice.ListWorkflowExecutionsRequest,
) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	answer := &workflowservice.ListWorkflowExecutionsResponse{}
	onlyRunning := strings.Contains(in.GetQuery(), "ExecutionStatus = 'Running'")
	from, _ := strconv.Atoi(string(in.GetNextPageToken()))
	for i, id := range t.ids[from:] {
		if i == int(in.GetPageSize()) && i > 0 {
			answer.NextPageToken = []byte(strconv.Itoa(from + i))
			break
		}
		if t.has[id] != nil && (t.running(id) == nil || !onlyRunning) {
			answer.Executions = append(answer.Executions, t.has[id])
		}
	}
	return answer, nil
}

// DescribeTaskQueue has no pollers.
func (t *Temporal) DescribeTaskQueue(context.Context, string, enumspb.TaskQueueType,
) (*workflowservice.DescribeTaskQueueResponse, error) {
	return &workflowservice.DescribeTaskQueueResponse{}, nil
}

// WorkflowService describes sessions, and has their signals.
func (t *Temporal) WorkflowService() workflowservice.WorkflowServiceClient { return service{of: t} }

type service struct {
	workflowservice.WorkflowServiceClient
	of *Temporal
}

func (s service) DescribeWorkflowExecution(_ context.Context, in *workflowservice.DescribeWorkflowExecutionRequest,
	_ ...grpc.CallOption,
) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if info := s.of.has[in.GetExecution().GetWorkflowId()]; info != nil {
		return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info}, nil
	}
	return nil, serviceerror.NewNotFound("no such workflow")
}

func (s service) GetWorkflowExecutionHistoryReverse(_ context.Context,
	in *workflowservice.GetWorkflowExecutionHistoryReverseRequest, _ ...grpc.CallOption,
) (*workflowservice.GetWorkflowExecutionHistoryReverseResponse, error) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	out := &historypb.History{}
	all := s.of.unread[in.GetExecution().GetWorkflowId()]
	for i := range all {
		got := all[len(all)-1-i]
		out.Events = append(out.Events, &historypb.HistoryEvent{
			EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED,
			Attributes: &historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes{
				WorkflowExecutionSignaledEventAttributes: &historypb.WorkflowExecutionSignaledEventAttributes{
					SignalName: got.name, Input: payloads(got.content),
				},
			},
		})
	}
	return &workflowservice.GetWorkflowExecutionHistoryReverseResponse{History: out}, nil
}
