package control

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
)

// asked is a Temporal whose worker answers queries with a status.
type asked struct {
	client.Client
	status session.Status
}

func (a asked) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	payloads, err := converter.GetDefaultDataConverter().ToPayloads(a.status)
	return client.NewValue(payloads), err
}

// TestAnAgentIsNoPersonOfAQuorum: what an agent sends over MCP with a person's rights is not the approval of this person.
func TestAnAgentIsNoPersonOfAQuorum(t *testing.T) {
	t.Parallel()
	q := &session.Quorum{Count: 2, Approvals: []session.Approval{{Person: "ann"}}}
	open := session.Request{
		ID: "one.approval.1", Kind: session.ForApproval, Phase: "one", Quorum: q,
		Actions: session.ForApproval.Rule().Actions,
	}
	conn := &temporalutil.Connection{Client: asked{status: session.Status{Session: "s", Help: []session.Request{open}}}}
	b := &Base{Temporal: Connected(conn), Namespace: "default", Now: time.Now}
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
			var denied *access.DeniedError
			require.ErrorAs(t, err, &denied)
			require.ErrorContains(t, err, []string{"claude-code for bob (over MCP)", "ci, an agent of bob"}[i]+" may not approve here")
			require.Empty(t, answer.Person)
		}
		require.Empty(t, ChoicesFor(ctx, q, open.Choices()))
	}
}
