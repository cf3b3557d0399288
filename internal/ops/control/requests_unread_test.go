package control

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
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
			again, err := isRepeated(t.Context(), conn, "s", c.answer, c.quorum)
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
		w := &sessionstatus.Watcher{Conn: conn, Session: "s"}
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
		_, err = isRepeated(t.Context(), conn, "s", session.Answer{
			Request: "one.approval.2", Action: session.AnswerReject, By: "bob",
			Note: "x",
		}, nil)
		require.ErrorContains(t, err, "approve by ann", "who rejects after it is told so")
		_, err = goOn(ctx, w, nil, "one")
		require.ErrorContains(t, err, "not known yet")
	})
}
