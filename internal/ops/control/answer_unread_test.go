package control

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/workflows"
)

// unread is a Temporal with answers that no worker has read.
type unread struct {
	client.Client
	answers []session.Answer // the oldest first
}

func (u *unread) WorkflowService() workflowservice.WorkflowServiceClient { return history{unread: u} }

type history struct {
	workflowservice.WorkflowServiceClient
	unread *unread
}

func (h history) GetWorkflowExecutionHistoryReverse(context.Context, *workflowservice.GetWorkflowExecutionHistoryReverseRequest,
	...grpc.CallOption,
) (*workflowservice.GetWorkflowExecutionHistoryReverseResponse, error) {
	out := &historypb.History{}
	for i := range h.unread.answers {
		input, err := converter.GetDefaultDataConverter().ToPayloads(h.unread.answers[len(h.unread.answers)-1-i])
		if err != nil {
			return nil, err
		}
		out.Events = append(out.Events, &historypb.HistoryEvent{
			EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED,
			Attributes: &historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes{
				WorkflowExecutionSignaledEventAttributes: &historypb.WorkflowExecutionSignaledEventAttributes{
					SignalName: workflows.ResolveUpdate, Input: input,
				},
			},
		})
	}
	return &workflowservice.GetWorkflowExecutionHistoryReverseResponse{History: out}, nil
}

// TestOnlyTheFirstAnswerCounts, or as many approvals as a request needs, also while no worker reads them.
func TestOnlyTheFirstAnswerCounts(t *testing.T) {
	t.Parallel()
	by := func(person string, action session.Action) session.Answer {
		return session.Answer{Request: "r", Action: action, By: person, Person: person, Group: session.AnyGroup}
	}
	ann, bob, eve := by("ann", session.AnswerApprove), by("bob", session.AnswerApprove), by("eve", session.AnswerApprove)
	other := bob
	other.Request = "another"
	two := func(done ...session.Approval) *session.Quorum { return &session.Quorum{Count: 2, Approvals: done} }
	for name, c := range map[string]struct {
		unread []session.Answer
		quorum *session.Quorum
		answer session.Answer
		again  bool
		says   string
	}{
		"the first one":      {answer: ann},
		"the same":           {unread: []session.Answer{ann}, answer: ann, again: true},
		"the second":         {unread: []session.Answer{ann, bob}, answer: eve, says: "approve by ann"},
		"to another request": {unread: []session.Answer{other}, answer: ann},
		"the second of two":  {unread: []session.Answer{ann}, quorum: two(), answer: bob},
		"the third of two":   {unread: []session.Answer{ann, bob}, quorum: two(), answer: eve, says: "approve by bob"},
		"with a stored one": {
			unread: []session.Answer{bob}, quorum: two(session.Approval{Person: "ann"}), answer: eve,
			says: "approve by bob",
		},
		"the same person": {
			unread: []session.Answer{{Request: "r", Action: session.AnswerApprove, Person: "ann", Note: "yes"}},
			quorum: two(), answer: ann, says: "ann has approved already",
		},
		"the same of a quorum": {unread: []session.Answer{ann}, quorum: two(), answer: ann, again: true},
		"after a rejection": {
			unread: []session.Answer{by("eve", session.AnswerReject)}, quorum: two(), answer: ann,
			says: "reject by eve",
		},
		"a rejection comes late": {unread: []session.Answer{ann}, quorum: two(), answer: by("eve", session.AnswerReject)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			again, err := checkUnread(t.Context(), &temporalutil.Connection{Client: &unread{answers: c.unread}}, "s", c.answer, c.quorum)
			require.Equal(t, c.again, again)
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
		})
	}
}

// SignalWorkflow stores an answer for a worker.
func (u *unread) SignalWorkflow(_ context.Context, _, _, _ string, answer any) error {
	u.answers = append(u.answers, answer.(session.Answer))
	return nil
}

func (u *unread) UpdateWorkflow(ctx context.Context, _ client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestAResumeOfAPausedSessionIsOneAnswerToItsRequest, also while no worker runs.
func TestAResumeOfAPausedSessionIsOneAnswerToItsRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &unread{}
		conn := &temporalutil.Connection{Client: u}
		w := &sessionstatus.Reader{Conn: conn, Session: "s"}
		open := []session.Request{{ID: "one.approval.2", Kind: session.ForApproval, Phase: "one"}}
		ctx := access.With(t.Context(), access.Local("ann"))
		for range 2 {
			answered, err := goOn(ctx, w, open, "one")
			require.NoError(t, err)
			require.False(t, answered)
		}
		ann := session.Answer{Request: "one.approval.2", Action: session.AnswerApprove, By: "ann"}
		require.Equal(t, []session.Answer{ann}, u.answers, "a repeated one is not sent again")
		_, err := goOn(access.With(t.Context(), access.Local("bob")), w, open, "one")
		require.ErrorContains(t, err, "approve by ann")
		_, err = checkUnread(t.Context(), conn, "s", session.Answer{
			Request: "one.approval.2", Action: session.AnswerReject, By: "bob",
			Note: "x",
		}, nil)
		require.ErrorContains(t, err, "approve by ann", "who rejects after it is told so")
		_, err = goOn(ctx, w, nil, "one")
		require.ErrorContains(t, err, "not known yet")
	})
}
