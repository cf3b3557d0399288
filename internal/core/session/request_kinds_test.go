package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
)

func TestKindsOfRequests(t *testing.T) {
	t.Parallel()
	for _, k := range session.RequestKinds() {
		rule := k.Rule()
		require.Equal(t, k, rule.Kind)
		require.NotEmpty(t, rule.Need, k)
		require.NotEmpty(t, rule.Actions, k)
		for _, v := range rule.Actions {
			require.Equal(t, rule.OfPhase, v.OfPhase(), "%s takes %s", k, v)
		}
	}
}

// TestARequestTakesWhatItsKindTakes whatever it lists.
func TestARequestTakesWhatItsKindTakes(t *testing.T) {
	t.Parallel()
	h := session.Request{Kind: session.ForApproval, Actions: []session.Action{session.AnswerApprove, session.AnswerSkip}}
	require.True(t, h.Takes(session.AnswerApprove))
	require.False(t, h.Takes(session.AnswerSkip))
	require.False(t, h.Takes(session.AnswerReject))
}
