package activities_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// TestAdmissionWaitsForOffers: while the database was away, no worker could renew its offer. The session waits.
func TestAdmissionWaitsForOffers(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	require.NoError(t, p.store.State.PutOffer(t.Context(), spec.Offer{
		Worker: "w", StartedAt: time.Now(), RenewedAt: time.Now().Add(-spec.OfferLifetime),
		Agents: map[string]spec.OfferedAgent{"a": {Kind: "command"}},
	}))
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivityWithOptions(admissions(p.store, p.db()).Admit, activity.RegisterOptions{Name: "admit"})
	_, err := env.ExecuteActivity("admit", activities.AdmitInput{Start: session.Start{
		Store: p.store.ID(), Team: p.blob(p.encoded()), Requirement: p.blob([]byte("why")), Workspace: p.workspace, Run: 1,
	}})
	var failed *temporal.ApplicationError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, session.StoreUnusable, failed.Type())
	require.False(t, failed.NonRetryable())
}
