package control

import (
	"context"
	"math"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/workflows"
)

const (
	// listPage is the page size of requests to Temporal.
	listPage = 200
	// allSessions is a limit without effect.
	allSessions = math.MaxInt
)

// visible lists the sessions in Temporal for which a condition is true, newest first. An empty
// condition is true for all.
func visible(ctx context.Context, conn *temporalutil.Connection, limit int, condition string) ([]ListedSession, error) {
	out := []ListedSession{}
	listed := map[string]bool{} // only the newest run of each
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: conn.Namespace, PageSize: listPage,
		Query: "WorkflowType = '" + workflows.TeamSessionName + "' AND ExecutionStatus != 'ContinuedAsNew'",
	}
	if condition != "" {
		request.Query += " AND " + condition
	}
	for {
		answer, err := conn.ListWorkflow(ctx, request)
		if err != nil {
			return nil, err
		}
		for _, info := range answer.GetExecutions() {
			if l := fromVisibility(info); !listed[l.Session] {
				listed[l.Session] = true
				out = append(out, l)
			}
		}
		request.NextPageToken = answer.GetNextPageToken()
		if len(request.NextPageToken) == 0 || len(out) >= limit {
			return out, nil
		}
	}
}

func fromVisibility(info *workflowpb.WorkflowExecutionInfo) ListedSession {
	summary := sessionstatus.Memo[workflows.MemoSummary](info, workflows.MemoStatus)
	l := ListedSession{
		Session: info.GetExecution().GetWorkflowId(), Team: sessionstatus.Memo[string](info, workflows.MemoTeam),
		Store: sessionstatus.Memo[string](info, workflows.MemoStore), Requirement: sessionstatus.Memo[string](info,
			workflows.MemoRequirement),
		Labels: sessionstatus.Memo[map[string]string](info, workflows.MemoLabels),
		Phases: []string{}, Tokens: summary.Usage.Tokens(), Temporal: true, CostUSD: summary.Usage.CostUSD, usage: summary.Usage,
		reason: summary.Reason,
	}
	if t := info.GetStartTime(); t != nil {
		started := t.AsTime()
		l.StartedAt, l.ran, l.run = &started, started, info.GetExecution().GetRunId()
	}
	if t := info.GetCloseTime(); t != nil {
		closed := t.AsTime()
		l.ClosedAt = &closed
	}
	l.Status = sessionstatus.ClosedState(info.GetStatus())
	if info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		l.Status = session.Running
		if s := sessionstatus.Attribute[string](info, workflows.AttributeStatus.GetName()); s != "" && !session.State(s).Closed() {
			l.Status = session.State(s)
		}
		l.Phases = append(l.Phases, sessionstatus.Attribute[[]string](info, workflows.AttributePhase.GetName())...)
	}
	l.failing = len(sessionstatus.Attribute[[]string](info, sessionstatus.ProblemsAttribute)) > 0
	if n := sessionstatus.Attribute[int64](info, workflows.AttributeTokens.GetName()); n > 0 {
		l.Tokens = n
	}
	return l
}

// join adds the store's sessions (store is its id) to Temporal's. For a session in both, Temporal's state decides
// whether it runs.
func join(known []ListedSession, store string, stored []state.Session) []ListedSession {
	at := map[string]int{}
	for i, l := range known {
		at[l.Session] = i
	}
	for _, m := range stored {
		i, ok := at[m.Session]
		switch {
		case !ok:
			known = append(known, ListedSession{
				Session: m.Session, Team: m.Team, Status: m.Status, Phases: m.Phases,
				Store: store, StartedAt: m.StartedAt, ClosedAt: m.ClosedAt, Labels: m.Labels,
			})
		case known[i].Store == store:
			if known[i].Status == session.Running && m.Status == session.WaitingForBreaker {
				known[i].Status = m.Status
			}
			if m.Run == known[i].run && m.FirstRun != m.Run && m.StartedAt != nil { // it has continued as new
				known[i].StartedAt = m.StartedAt
			}
			if len(known[i].Phases) == 0 && !known[i].Status.Closed() {
				known[i].Phases = m.Phases
			}
		}
	}
	return known
}

// order is when the newest run of a session started.
func (l ListedSession) order() time.Time {
	if l.ran.IsZero() {
		return timeOf(l.StartedAt)
	}
	return l.ran
}
