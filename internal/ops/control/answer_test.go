package control

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
	"github.com/maestro-hive/maestro/internal/testkit/temporalfake"
	"github.com/maestro-hive/maestro/workflows"
)

// unread is a Temporal with a session and answers that no worker has read, the oldest first.
func unread(answers ...session.Answer) (*temporalfake.Temporal, *temporalutil.Connection) {
	temporal := temporalfake.New()
	temporal.Put("s", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, time.Now(), nil)
	for _, a := range answers {
		_ = temporal.SignalWorkflow(context.Background(), "s", "", workflows.ResolveUpdate, a) // it runs
	}
	temporal.Sent()
	return temporal, temporal.Connection()
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
		"a rejection":        {unread: []session.Answer{ann}, answer: by("eve", session.AnswerReject), says: "approve by ann"},
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
			_, conn := unread(c.unread...)
			again, err := checkUnread(t.Context(), conn, "s", c.answer, c.quorum)
			require.Equal(t, c.again, again)
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
		})
	}
}

// TestAResumeOfAPausedSessionIsOneAnswerToItsRequest, also while no worker runs.
func TestAResumeOfAPausedSessionIsOneAnswerToItsRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		temporal, conn := unread()
		w := &sessionstatus.Reader{Conn: conn, Session: "s"}
		open := []session.Request{{ID: "one.approval.2", Kind: session.ForApproval, Phase: "one"}}
		ctx := access.With(t.Context(), access.Local("ann"))
		for range 2 {
			answered, err := goOn(ctx, w, open, "one")
			require.NoError(t, err)
			require.False(t, answered)
		}
		ann := session.Answer{Request: "one.approval.2", Action: session.AnswerApprove, By: "ann"}
		require.Equal(t, []temporalfake.Message{{Session: "s", Name: workflows.ResolveUpdate, Content: ann}}, temporal.Sent(),
			"a repeated one is not sent again")
		_, err := goOn(access.With(t.Context(), access.Local("bob")), w, open, "one")
		require.ErrorContains(t, err, "approve by ann")
		_, err = goOn(ctx, w, nil, "one")
		require.ErrorContains(t, err, "not known yet")
	})
}

// TestAnAgentIsNoPersonOfAQuorum: what an agent sends over MCP with a person's rights is not the approval of this person.
func TestAnAgentIsNoPersonOfAQuorum(t *testing.T) {
	t.Parallel()
	q := &session.Quorum{Count: 2, Approvals: []session.Approval{{Person: "ann"}}}
	open := session.Request{
		ID: "one.approval.1", Kind: session.ForApproval, Phase: "one", Quorum: q,
		Actions: session.ForApproval.Rule().Actions,
	}
	b := newKit(t).Base
	_, conn := unread()
	b.Temporal = Connected(conn)
	statetest.Put(t, b.Store.State, b.key("s"), func(e *session.Execution) { e.Team, e.Help = "crew", []session.Request{open} })
	w, err := b.reader("s")
	require.NoError(t, err)
	token := access.Actor{Name: "ci", Owner: "bob", Via: access.ViaToken}
	for i, who := range []access.Actor{access.Local("bob"), token} {
		ctx := access.With(t.Context(), who)
		answer := session.Answer{Request: "one.approval.1", Action: session.AnswerApprove}
		_, err := Requests{b}.verifyApprover(ctx, w, &answer)
		require.NoError(t, err)
		require.Equal(t, "bob", answer.Person)
		require.NotEmpty(t, ChoicesFor(ctx, q, open.Choices()))

		if who.Via == access.ViaToken {
			who.Via = access.ViaAgent
		} else {
			who.Program = access.ProgramMCP + "/claude-code"
		}
		ctx = access.With(t.Context(), who)
		for _, action := range []session.Action{session.AnswerApprove, session.AnswerReject} {
			answer = session.Answer{Request: "one.approval.1", Action: action, Note: "x"}
			_, err = Requests{b}.verifyApprover(ctx, w, &answer)
			require.ErrorAs(t, err, new(*access.DeniedError))
			require.ErrorContains(t, err, []string{"claude-code for bob (over MCP)", "ci, an agent of bob"}[i]+" may not approve here")
			require.Empty(t, answer.Person)
		}
		require.Empty(t, ChoicesFor(ctx, q, open.Choices()))
	}
}

// slowSession accepts an update at once, or never, and returns its error after some time.
type slowSession struct {
	client.Client
	client.WorkflowUpdateHandle
	busy    bool
	after   time.Duration
	refusal error
}

func (s *slowSession) UpdateWorkflow(ctx context.Context, _ client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	if s.busy {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s, nil
}

func (s *slowSession) Get(ctx context.Context, _ any) error {
	select {
	case <-time.After(s.after):
		return s.refusal
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestALateRefusalIsNoSuccess(t *testing.T) {
	t.Parallel()
	refused := temporal.NewApplicationError("it was answered before", "NotAwaited")
	for name, c := range map[string]struct {
		session  slowSession
		answered bool
		says     string
	}{
		"refused at once":      {slowSession{refusal: refused}, true, "session s: it was answered before"},
		"refused late":         {slowSession{refusal: refused, after: 2 * AcceptTimeout}, true, "session s: it was answered before"},
		"applied late":         {slowSession{after: 2 * AcceptTimeout}, true, ""},
		"not applied in time":  {slowSession{after: 2 * ApplyTimeout}, true, "did not complete it within 1m0s"},
		"not accepted in time": {slowSession{busy: true}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				answered, err := send(t.Context(), &temporalutil.Connection{Client: &c.session}, "s", message{update: "resolve"}, nil)
				require.Equal(t, c.answered, answered)
				if c.says == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, c.says)
				}
			})
		})
	}
}
