package view

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
	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/team"
	"github.com/maestro-hive/maestro/workflows"
)

func description(t *testing.T, status enumspb.WorkflowExecutionStatus, pending ...*workflowpb.PendingActivityInfo) *workflowservice.DescribeWorkflowExecutionResponse {
	t.Helper()
	info := &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: "s", RunId: "r"}, Status: status, HistoryLength: 42,
		StartTime: timestamppb.New(time.Unix(1000, 0)),
		Memo: &commonpb.Memo{Fields: map[string]*commonpb.Payload{
			workflows.MemoStore: payload(t, "abcd"), workflows.MemoTeam: payload(t, "crew"), workflows.MemoRequirement: payload(t, "Do it."),
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

func crew() team.Team {
	return team.Team{
		Version: 1, Name: "crew",
		Personas: map[string]team.Persona{"dev": {Role: "Developer", Agent: "coder", Instructions: "x"}},
		Phases:   []team.Phase{{Name: "build", Personas: []string{"dev"}}, {Name: "ship", Personas: []string{"dev"}}},
	}.Resolved()
}

func execution(state team.State) *team.Execution {
	e := &team.Execution{Status: team.NewStatus("s", crew()), RunID: "r"}
	e.Status.Status = state
	e.Phases[0].Status, e.Phases[0].Assignments[0].Status = team.Running, team.Running
	return e
}

func TestWhatTheStoreMirrorsIsTheBaseAndHeartbeatsSayWhatHappensNow(t *testing.T) {
	t.Parallel()
	d := description(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
		pendingRound(t, enumspb.PENDING_ACTIVITY_STATE_STARTED, &activities.Heartbeat{Progress: "thinking", Attempt: 2}))
	v := merge("s", facts{description: d, mirrored: execution(team.Running)})
	require.Equal(t, team.Running, v.Status.Status)
	require.Equal(t, "thinking", v.Phases[0].Assignments[0].Progress)
	require.Equal(t, int64(42), v.HistoryEvents)
	require.Equal(t, "Do it.", v.Requirement)
	require.Empty(t, v.Notes)
}

func TestTheLedgerSaysWhatIsSpentSoFar(t *testing.T) {
	t.Parallel()
	spent := func(tokens int64) []budget.Spending {
		return []budget.Spending{{Date: "2026-01-31", Agent: "coder", Calls: 1, Usage: team.Usage{InputTokens: tokens, CostUSD: team.USD(tokens)}}}
	}
	mirrored := execution(team.Running)
	mirrored.Phases[0].Assignments[0].Usage = team.Usage{InputTokens: 10, CostUSD: 10}
	mirrored.Phases[1].Assignments[0].Usage = team.Usage{InputTokens: 5}
	mirrored.Dropped = team.Usage{InputTokens: 3, CostUSD: 3}
	mirrored.Usage = mirrored.Sum()
	f := facts{description: description(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING), mirrored: mirrored, ledger: &budget.Ledger{Rows: map[string]budget.Row{
		"build/dev": {
			Spent: spent(70), Unsettled: []budget.UnsettledCall{{Call: 3, Estimate: team.Usage{OutputTokens: 9}}}, Reserved: map[int64]team.Amount{4: {Tokens: 100, USD: 8}},
		},
		"gone/dev": {Spent: spent(3)},
	}}}
	v := merge("s", f)
	require.Equal(t, team.Usage{InputTokens: 70, CostUSD: 70}, v.Phases[0].Assignments[0].Usage, "the mirror lags")
	require.Equal(t, team.Usage{InputTokens: 5}, v.Phases[1].Assignments[0].Usage, "it was paid before there were ledgers")
	require.Equal(t, team.Usage{InputTokens: 78, CostUSD: 73}, v.Usage, "what the team has no more counts once")
	require.Equal(t, team.Usage{OutputTokens: 9}, v.Unsettled)
	require.Equal(t, team.Amount{Tokens: 100, USD: 8}, v.Reserved)

	f.ledger.Warnings = []budget.Warning{
		{Scope: "session", At: 0.8, Spent: team.Amount{Tokens: 85}, Cap: team.Cap{Tokens: 100}, When: time.Unix(1500, 0)},
		{Scope: "session", At: 0.5, Spent: team.Amount{Tokens: 85}, Cap: team.Cap{Tokens: 100}, When: time.Unix(1500, 0)},
	}
	require.Equal(t, f.ledger.Warnings[:1], merge("s", f).Warnings, "the greatest")

	f.ledger = &budget.Ledger{}
	v = merge("s", f)
	require.Equal(t, mirrored.Usage, v.Usage)
	data, err := json.Marshal(v.Status)
	require.NoError(t, err)
	require.NotContains(t, string(data), "unsettled")
	require.NotContains(t, string(data), "reserved")
}

func TestTheCallUnderWayCountsUntilTheLedgerHasIt(t *testing.T) {
	t.Parallel()
	row := budget.Row{
		Spent:    []budget.Spending{{Date: "2026-01-31", Agent: "coder", Calls: 1, Usage: team.Usage{InputTokens: 70}}},
		Reserved: map[int64]team.Amount{4: {}},
	}
	h := &activities.Heartbeat{Attempt: 1, Spent: team.Usage{InputTokens: 100}, Call: 4, Live: team.Usage{InputTokens: 30}}
	look := func() Session {
		return merge("s", facts{
			description: description(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, pendingRound(t, enumspb.PENDING_ACTIVITY_STATE_STARTED, h)),
			mirrored:    execution(team.Running), ledger: &budget.Ledger{Rows: map[string]budget.Row{"build/dev": row}},
		})
	}
	require.Equal(t, team.Usage{InputTokens: 100}, look().Phases[0].Assignments[0].Usage)
	require.Equal(t, team.Usage{InputTokens: 100}, look().Usage)

	row.Spent[0].Usage.InputTokens, row.Reserved = 100, nil
	require.Equal(t, team.Usage{InputTokens: 100}, look().Usage, "the call has ended, and the heartbeat does not know it yet")
}

func TestAWorkersAnswerIsCompletedByHeartbeats(t *testing.T) {
	t.Parallel()
	h := &activities.Heartbeat{Progress: "thinking", Attempt: 2, Log: team.RoundLog{Lost: 1, Attempts: []team.AttemptReport{
		{Attempt: 1, Failure: team.Failure{Category: team.Syntax, Message: "bad"}, Usage: team.Usage{InputTokens: 5}},
	}}}
	answer := execution(team.Running).Status
	v := merge("s", facts{
		description: description(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, pendingRound(t, enumspb.PENDING_ACTIVITY_STATE_STARTED, h)),
		queried:     &answer,
	})
	a := v.Phases[0].Assignments[0]
	require.Equal(t, 1, a.Attempts)
	require.Equal(t, 1, a.LostWorkers)
	require.Equal(t, int64(5), a.Usage.Tokens())
	require.Equal(t, []team.AttemptFailure{{Category: team.Syntax, Message: "bad"}}, a.Failures)
}

func TestOnlyTheMemoIsLeft(t *testing.T) {
	t.Parallel()
	v := merge("s", facts{description: description(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)})
	require.Equal(t, team.Admitted, v.Status.Status)
	require.Equal(t, "crew", v.Team)
	data, err := json.Marshal(v.Status)
	require.NoError(t, err)
	require.NotContains(t, string(data), `"phases":null`)
	require.NotContains(t, string(data), `"help":null`)
	require.NotContains(t, string(data), `"decisions":null`)
}

func TestTemporalSaysHowASessionEnded(t *testing.T) {
	t.Parallel()
	help := []team.HelpRequest{{Phase: "build", Persona: "dev", Category: team.Syntax, Message: "bad"}}
	fault := func(kind string, details ...any) error {
		return temporal.NewApplicationErrorWithOptions("why", kind, temporal.ApplicationErrorOptions{NonRetryable: true, Details: details})
	}
	for _, c := range []struct {
		name    string
		status  enumspb.WorkflowExecutionStatus
		end     error
		want    team.State
		reason  string
		phase   team.State
		refused bool
	}{
		{"completed", enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, nil, team.Completed, "", team.Running, false},
		{"terminated", enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, errors.New("terminated"), team.Failed, "terminated in Temporal", team.Pending, false},
		{"timed out", enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT, errors.New("timeout"), team.Failed, "time ran out", team.Pending, false},
		{"cancelled", enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED, temporal.NewCanceledError(), team.WasCancelled, "was cancelled", team.Pending, false},
		{"help needed", enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, fault(team.HelpNeeded, help), team.Failed, "why", team.Failed, false},
		{"not admitted", enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, fault(team.NotAdmitted, []string{"a", "b"}), team.Failed, "not admitted: a; b", team.Pending, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := merge("s", facts{description: description(t, c.status), mirrored: execution(team.Running), end: c.end})
			require.Equal(t, c.want, v.Status.Status)
			require.Contains(t, v.Reason, c.reason)
			require.Equal(t, c.phase, v.Phases[0].Status)
			require.Equal(t, c.refused, len(v.Faults) > 0)
			require.NotNil(t, v.ClosedAt)
		})
	}
}

func TestTheMirrorOutlivesTheHistory(t *testing.T) {
	t.Parallel()
	v := merge("s", facts{mirrored: execution(team.Completed)})
	require.Equal(t, team.Completed, v.Status.Status)
	require.Len(t, v.Notes, 1)
}

func TestTheMirrorMayKnowTheEndBeforeTemporal(t *testing.T) {
	t.Parallel()
	v := merge("s", facts{description: description(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING), mirrored: execution(team.Completed)})
	require.Equal(t, team.Running, v.Status.Status)
	require.Nil(t, v.ClosedAt)
}

// TestRoundThatNobodyHasTakenUpSaysWhatIsKnownOfItsWorker, who may be at work on it
// where Temporal has not heard of it for too long.
func TestRoundThatNobodyHasTakenUpSaysWhatIsKnownOfItsWorker(t *testing.T) {
	t.Parallel()
	for want, last := range map[string]*failurepb.Failure{
		"waits for a free worker": {FailureInfo: &failurepb.Failure_ApplicationFailureInfo{}},
		"waits for a free worker; Temporal has lost touch with the last one, which may still be at work": {
			FailureInfo: &failurepb.Failure_TimeoutFailureInfo{TimeoutFailureInfo: &failurepb.TimeoutFailureInfo{TimeoutType: enumspb.TIMEOUT_TYPE_HEARTBEAT}},
		},
	} {
		p := pendingRound(t, enumspb.PENDING_ACTIVITY_STATE_SCHEDULED, nil)
		p.LastFailure = last
		v := merge("s", facts{description: description(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, p), mirrored: execution(team.Running)})
		require.Equal(t, want, v.Phases[0].Assignments[0].Progress)
	}
}

// TestWaitWithoutAWorkerSaysWhatItIsFor: the provider's trouble, where there is one.
func TestWaitWithoutAWorkerSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	away := team.Outage{Failure: *team.Failf(team.APIError, "it is on fire")}
	for want, log := range map[string]team.RoundLog{
		"the next attempt starts at ":               {},
		"for the provider, which has failed since ": {Outage: &away},
	} {
		p := pendingRound(t, enumspb.PENDING_ACTIVITY_STATE_SCHEDULED, &activities.Heartbeat{Log: log})
		p.NextAttemptScheduleTime = timestamppb.New(time.Unix(3000, 0))
		v := merge("s", facts{description: description(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, p), mirrored: execution(team.Running)})
		require.Contains(t, v.Phases[0].Assignments[0].Progress, want)
		require.Equal(t, log.Outage != nil, strings.Contains(v.Phases[0].Assignments[0].Progress, "it is on fire"))
	}
}

func TestNobodyPolls(t *testing.T) {
	t.Parallel()
	for queue, want := range map[string]string{
		"maestro-abcd":       "no worker serves this session's store (abcd)",
		"maestro-abcd.coder": "no worker offers agent coder",
	} {
		p := pendingRound(t, enumspb.PENDING_ACTIVITY_STATE_SCHEDULED, nil)
		v := merge("s", facts{
			description: description(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, p),
			mirrored:    execution(team.Running), idle: []string{queue},
		})
		require.Contains(t, v.Reason, want)
		require.Equal(t, team.Waiting, v.Phases[0].Assignments[0].Status)
	}
}
