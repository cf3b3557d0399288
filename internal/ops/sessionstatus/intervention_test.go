package sessionstatus

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

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
