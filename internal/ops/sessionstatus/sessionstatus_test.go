package sessionstatus

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/workflows"
)

func description(t *testing.T, status enumspb.WorkflowExecutionStatus,
	pending ...*workflowpb.PendingActivityInfo,
) *workflowservice.DescribeWorkflowExecutionResponse {
	t.Helper()
	info := &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: "s", RunId: "r"}, Status: status, HistoryLength: 42,
		StartTime: timestamppb.New(time.Unix(1000, 0)),
		Memo: &commonpb.Memo{Fields: map[string]*commonpb.Payload{
			workflows.MemoStore: payload(t, "abcd"), workflows.MemoTeam: payload(t, "crew"),
			workflows.MemoRequirement: payload(t, "Do it."),
		}},
	}
	if status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		info.CloseTime = timestamppb.New(time.Unix(2000, 0))
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info, PendingActivities: pending}
}

func payload(t *testing.T, value any) *commonpb.Payload {
	t.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayload(value)
	require.NoError(t, err)
	return p
}

func pendingRound(t *testing.T, state enumspb.PendingActivityState, h *activities.Heartbeat) *workflowpb.PendingActivityInfo {
	t.Helper()
	p := &workflowpb.PendingActivityInfo{
		ActivityId: "build.dev.1", ActivityType: &commonpb.ActivityType{Name: string(activities.RoundName)}, State: state,
	}
	if h != nil {
		p.HeartbeatDetails = &commonpb.Payloads{Payloads: []*commonpb.Payload{payload(t, *h)}}
	}
	return p
}

func crew() spec.Team {
	return spec.Team{
		Version: 1, Name: "crew",
		Personas: map[string]spec.Persona{"dev": {Role: "Developer", Agent: "coder", Instructions: "x"}},
		Phases:   []spec.Phase{{Name: "build", Personas: []string{"dev"}}, {Name: "ship", Personas: []string{"dev"}}},
	}.Resolved()
}

func execution(state session.State) *session.Execution {
	e := &session.Execution{Status: session.NewStatus("s", crew()), RunID: "r"}
	e.Status.Status = state
	e.Phases[0].Status, e.Phases[0].Assignments[0].Status = session.Running, session.Running
	return e
}

func TestCallsSayWhatIsSpentSoFar(t *testing.T) {
	t.Parallel()
	spent := func(tokens int64) cost.Usage { return cost.Usage{InputTokens: tokens, CostUSD: cost.USD(tokens)} }
	document := execution(session.Running)
	document.Help = []session.Request{{Phase: "build", Persona: "dev"}, {Phase: "ship"}}
	f := facts{
		description: description(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING), document: document,
		account: &state.Account{Costs: []state.Cost{
			{Phase: "build", Persona: "dev", Spending: state.Spending{
				Usage: spent(60), Unsettled: state.OpenCalls{Calls: 1, Amount: cost.Amount{Tokens: 9}},
			}},
			{Phase: "build", Persona: "dev", Spending: state.Spending{
				Usage: spent(10), Reserved: state.OpenCalls{Calls: 1, Amount: cost.Amount{Tokens: 100, USD: 8}},
			}},
			{Phase: "gone", Persona: "dev", Spending: state.Spending{Usage: spent(3)}},
		}},
	}
	v := merge("s", f)
	require.Equal(t, spent(70), v.Phases[0].Assignments[0].Usage, "what a call in progress has reported counts")
	require.Zero(t, v.Phases[1].Assignments[0].Usage)
	require.Equal(t, spent(73), v.Usage)
	require.Equal(t, spent(3), v.Dropped, "the team has that assignment no more")
	require.Equal(t, []cost.Usage{spent(70), {}}, []cost.Usage{v.Help[0].Usage, v.Help[1].Usage})
	require.Equal(t, cost.Usage{OutputTokens: 9}, v.Unsettled)
	require.Equal(t, cost.Amount{Tokens: 100, USD: 8}, v.Reserved)

	warnings := []budget.Warning{
		{Scope: "session", At: 0.8, Spent: cost.Amount{Tokens: 85}, Cap: spec.Cap{Tokens: 100}, When: time.Unix(1500, 0)},
		{Scope: "session", At: 0.5, Spent: cost.Amount{Tokens: 85}, Cap: spec.Cap{Tokens: 100}, When: time.Unix(1500, 0)},
	}
	f.account.Budgets = []budget.Budget{{
		Kind: session.BudgetOfSession, Cap: spec.Cap{Tokens: 100}, Spent: cost.Amount{Tokens: 85},
		Warnings: warnings,
	}}
	v = merge("s", f)
	require.Equal(t, warnings[:1], v.Warnings, "the greatest")
	require.Equal(t, spec.Cap{Tokens: 100}, v.Limit)
	require.Equal(t, cost.Amount{Tokens: 85}, v.Spent)

	f.account = &state.Account{}
	v = merge("s", f)
	require.Zero(t, v.Usage)
	data, err := json.Marshal(v.Status)
	require.NoError(t, err)
	require.NotContains(t, string(data), "unsettled")
	require.NotContains(t, string(data), "reserved")
}

func TestOnlyTheMemoIsLeft(t *testing.T) {
	t.Parallel()
	v := merge("s", facts{description: description(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)})
	require.Equal(t, session.Admitted, v.Status.Status)
	require.Equal(t, "crew", v.Team)
	data, err := json.Marshal(v.Status)
	require.NoError(t, err)
	require.NotContains(t, string(data), `"phases":null`)
	require.NotContains(t, string(data), `"help":null`)
	require.NotContains(t, string(data), `"decisions":null`)
}

func TestTemporalSaysHowASessionEnded(t *testing.T) {
	t.Parallel()
	help := []session.Request{{Phase: "build", Persona: "dev", Category: failures.Syntax, Message: "bad"}}
	fault := func(kind string, details ...any) error {
		return temporal.NewApplicationErrorWithOptions("why", kind, temporal.ApplicationErrorOptions{
			NonRetryable: true,
			Details:      details,
		})
	}
	const (
		completed, failed = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED
		terminated, late  = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT
		cancelled         = enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED
	)
	for reason, c := range map[string]struct {
		status enumspb.WorkflowExecutionStatus
		end    error
		want   session.State
		phase  session.State
	}{
		"":                       {completed, nil, session.Completed, session.Running},
		"terminated in Temporal": {terminated, errors.New("terminated"), session.Failed, session.Pending},
		"timed out":              {late, errors.New("timeout"), session.Failed, session.Pending},
		"was cancelled":          {cancelled, temporal.NewCanceledError(), session.WasCancelled, session.Pending},
		"why":                    {failed, fault(session.HelpNeeded, help), session.Failed, session.Failed},
		"not admitted: a; b":     {failed, fault(session.NotAdmitted, []string{"a", "b"}), session.Failed, session.Pending},
	} {
		v := merge("s", facts{description: description(t, c.status), document: execution(session.Running), end: c.end})
		require.Equal(t, c.want, v.Status.Status, reason)
		require.Contains(t, v.Reason, reason)
		require.Equal(t, c.phase, v.Phases[0].Status, reason)
		require.Equal(t, reason == "not admitted: a; b", len(v.Faults) > 0, reason)
		require.NotNil(t, v.ClosedAt, reason)
	}
}

func TestTheStatusDocumentMayKnowTheEndBeforeTemporal(t *testing.T) {
	t.Parallel()
	v := merge("s", facts{
		description: description(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING),
		document:    execution(session.Completed),
	})
	require.Equal(t, session.Running, v.Status.Status)
	require.Nil(t, v.ClosedAt)
}

// TestRoundThatNobodyHasTakenUpSaysWhatIsKnownOfItsWorker, who may be at work on it
// where Temporal has not heard of it for too long.
func TestRoundThatNobodyHasTakenUpSaysWhatIsKnownOfItsWorker(t *testing.T) {
	t.Parallel()
	for want, last := range map[string]*failurepb.Failure{
		"waits for a free worker": {FailureInfo: &failurepb.Failure_ApplicationFailureInfo{}},
		"waits for a free worker; the last one stopped sending heartbeats, and may still be running": {
			FailureInfo: &failurepb.Failure_TimeoutFailureInfo{TimeoutFailureInfo: &failurepb.TimeoutFailureInfo{
				TimeoutType: enumspb.TIMEOUT_TYPE_HEARTBEAT,
			}},
		},
	} {
		p := pendingRound(t, enumspb.PENDING_ACTIVITY_STATE_SCHEDULED, nil)
		p.LastFailure = last
		v := merge("s", facts{
			description: description(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, p),
			document:    execution(session.Running),
		})
		require.Equal(t, want, v.Phases[0].Assignments[0].Progress)
	}
}

// TestRoundsThatWaitForTheStore are found by what their heartbeats say.
func TestRoundsThatWaitForTheStore(t *testing.T) {
	t.Parallel()
	for progress, want := range map[string]string{
		"thinking": "", activities.StoreWaitProgress + "no space\nleft": "build/dev: resource_error: waiting for the store: no space",
	} {
		d := description(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
			pendingRound(t, enumspb.PENDING_ACTIVITY_STATE_STARTED, nil),
			pendingRound(t, enumspb.PENDING_ACTIVITY_STATE_STARTED, &activities.Heartbeat{Progress: progress, Attempt: 1}))
		require.Equal(t, want, roundStoreWait(facts{description: d}))
	}
}

// TestWorkThatIsNotDelivered: workers poll, and a session's next step waits all the same.
func TestWorkThatIsNotDelivered(t *testing.T) {
	t.Parallel()
	now := time.Unix(2000, 0)
	scheduled, started := enumspb.PENDING_WORKFLOW_TASK_STATE_SCHEDULED, enumspb.PENDING_WORKFLOW_TASK_STATE_STARTED
	for name, c := range map[string]struct {
		state   enumspb.PendingWorkflowTaskState
		attempt int32
		waits   time.Duration
		silent  error
		want    string
	}{
		"a moment": {scheduled, 1, 5 * time.Second, nil, ""},
		"too long": {
			scheduled, 1, 12 * time.Second, nil,
			"no worker has got the session's next step for 12s, although workers poll queue maestro-abcd",
		},
		"at work":        {started, 1, time.Minute, nil, ""},
		"failed before":  {scheduled, 7, time.Minute, nil, ""},
		"nothing is due": {0, 0, 0, nil, ""},
		"no answer": {
			started, 1, 0, errors.New("silence"),
			"no worker gets the session's work: silence; Temporal delivers no work",
		},
	} {
		d := description(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
		d.WorkflowExecutionInfo.TaskQueue = "maestro-abcd"
		if c.attempt > 0 {
			d.PendingWorkflowTask = &workflowpb.PendingWorkflowTaskInfo{
				State: c.state, Attempt: c.attempt,
				ScheduledTime: timestamppb.New(now.Add(-c.waits)),
			}
		}
		w := &Reader{Now: func() time.Time { return now }}
		f := facts{description: d, document: execution(session.Running)}
		f.stalled = w.undelivered(f, c.silent)
		v := merge("s", f)
		if c.want == "" {
			require.Empty(t, v.Notes, name)
			continue
		}
		require.Contains(t, v.Reason, c.want, name)
		require.Contains(t, v.Notes, v.Reason, name)
	}
}

func TestInterventionsSayWhoDidWhatAndWhy(t *testing.T) {
	t.Parallel()
	at := func(n int) time.Time { return time.Unix(int64(n), 0).UTC() }
	c := session.Checkpoint{
		Answers: []session.Answer{
			{Action: session.AnswerApprove, Phase: "plan", Person: "bob", Left: 1, At: at(1)},
			{Action: session.AnswerReject, Phase: "plan", By: "ana", Note: "too long", At: at(2)},
			{Action: session.AnswerRetry, Phase: "build", Persona: "dev", By: "ana", Note: "use port 1", At: at(5)},
		},
		Reworks: []session.Rework{
			{To: "plan", By: "ana", Reasons: []string{"too long"}, At: at(2)},
			{
				To: "build", From: spec.AssignmentID{Phase: "review", Persona: "critic"}, Reasons: []string{"no tests", "no docs"},
				At: at(4),
			},
		},
	}
	raises := []budget.Raise{
		{Scope: budget.PersonaScope("dev"), By: "cyd", Added: cost.Amount{Tokens: 5}, When: at(6)},
		{Scope: budget.SessionScope, By: "cyd", Note: strings.Repeat("n", 5000), Added: cost.Amount{USD: 5e9}, When: at(3)},
		{Scope: budget.DayScope, By: "dan", Added: cost.Amount{Tokens: 7}, When: at(7)},
	}
	all := InterventionsOf(c, raises)
	var said []string
	for _, i := range all {
		require.LessOrEqual(t, len(i.Text), maxInterventionText+len("…"))
		said = append(said, strings.Join([]string{string(i.Action), i.Subject(), i.By, i.Text[:min(len(i.Text), 20)]}, "|"))
	}
	require.Equal(t, []string{
		"approve|plan|bob|", "reject|plan|ana|too long", "raise|session|cyd|nnnnnnnnnnnnnnnnnnnn",
		"send_back|build|review/critic|no tests; no docs", "retry|build/dev|ana|use port 1", "raise|persona dev|cyd|",
		"raise|day|dan|",
	}, said)

	for range 200 {
		c.Answers = append(c.Answers, session.Answer{Action: session.AnswerRetry, At: at(8)})
	}
	require.Len(t, InterventionsOf(c, raises), maxInterventions)
}

func TestRecordsSayWhereWorkStandsSinceTheBoundary(t *testing.T) {
	t.Parallel()
	failed := session.AttemptReport{Failure: *failures.Failf(failures.TestFailure, "red")}
	begun := func(*session.RoundRecord) {}
	gone := func(r *session.RoundRecord) { r.GaveUp, r.Last = true, true }
	wait := &session.BreakerWait{Breaker: "b", Since: time.Unix(1000, 0)}
	for name, c := range map[string]struct {
		state  session.State
		change func(*session.RoundRecord) // nil: there is no round
		want   session.State
		counts int
		agent  string
	}{
		"not begun": {session.Pending, nil, session.Pending, 0, ""},
		"at work":   {session.Pending, begun, session.Running, 0, "other"},
		"between": {session.Pending, func(r *session.RoundRecord) {
			r.AtWork, r.Attempts = false, []session.AttemptReport{failed}
		}, session.Waiting, 1, "other"},
		"given up": {session.Running, func(r *session.RoundRecord) {
			r.GaveUp, r.Attempts = true, []session.AttemptReport{failed}
		}, session.Waiting, 1, "other"},
		"for good": {session.Running, gone, session.Failed, 0, "other"},
		"done": {session.Running, func(r *session.RoundRecord) {
			r.Result = &session.RoundResult{}
		}, session.Completed, 1, "other"},
		"sent back": {session.Pending, func(r *session.RoundRecord) {
			r.Result, r.Undone = &session.RoundResult{}, session.UndoneSentBack
		}, session.Pending, 1, ""},
		"an earlier run": {session.Pending, func(r *session.RoundRecord) { r.Run = 1 }, session.Pending, 0, ""},
		"help needed":    {session.HelpIsNeeded, gone, session.HelpIsNeeded, 0, ""},
		"skipped":        {session.Skipped, gone, session.Skipped, 0, ""},
		"mends":          {session.Completed, func(r *session.RoundRecord) { r.Integrating = true }, session.Running, 0, "other"},
		"a breaker":      {session.Waiting, func(r *session.RoundRecord) { r.AtWork = false }, session.Waiting, 0, ""},
		"no breaker":     {session.Waiting, begun, session.Running, 0, "other"},
	} {
		a := session.AssignmentStatus{Persona: "dev", AssignmentSummary: session.AssignmentSummary{Status: c.state}}
		if c.state == session.Waiting {
			a.Awaits = wait
		}
		var record session.Record
		if c.change != nil {
			r := session.RoundRecord{Order: session.Order{Run: 2}, Agent: "other"}
			r.AtWork = true
			c.change(&r)
			record.Rounds = append(record.Rounds, r)
		}
		join(&a, record, 2)
		require.Equal(t, c.want, a.Status, name)
		require.Equal(t, c.counts, a.Attempts, name)
		require.Equal(t, c.agent, a.Agent, name)
		require.Equal(t, name == "a breaker", a.Awaits != nil, name)
	}
}

func TestWaitsForTheStoreAreSaid(t *testing.T) {
	t.Parallel()
	running := enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	for _, name := range []activities.Name{activities.AdvanceName, activities.WriteStatusName} {
		waits := &workflowpb.PendingActivityInfo{
			ActivityType: &commonpb.ActivityType{Name: string(name)}, LastFailure: &failurepb.Failure{Message: "no space left"},
		}
		require.Equal(t, "resource_error: waiting for the store: no space left",
			storeWait(facts{description: description(t, running, waits)}))
	}
	v := merge("s", facts{description: description(t, running), unreadable: errors.New("no")})
	require.Equal(t, []string{"the session's state in the store cannot be read: no"}, v.Notes)
}

// TestARunThatWasResetGoesOnFromTheDocumentOfTheOneBefore, and a new one begins.
func TestARunThatWasResetGoesOnFromTheDocumentOfTheOneBefore(t *testing.T) {
	t.Parallel()
	e := execution(session.Running)
	e.RunID, e.FirstRun = "before", "first"
	d := description(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	require.Equal(t, session.Admitted, merge("s", facts{description: d, document: e}).Status.Status)
	d.WorkflowExecutionInfo.FirstRunId = "first"
	require.Equal(t, session.Running, merge("s", facts{description: d, document: execution(session.Running)}).Status.Status)
	require.Equal(t, session.Running, merge("s", facts{description: d, document: e}).Status.Status)
}
