package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

func TestBasisNamesThePersonasAgentWhereverItsFallbackWorks(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	own := spec.OfferedAgent{Kind: "anthropic", Model: "dear"}
	require.NoError(t, d.store.State.PutOffer(t.Context(), spec.Offer{
		Worker: "w", StartedAt: time.Now(), RenewedAt: time.Now(),
		Agents: map[string]spec.OfferedAgent{"a": own},
	}))
	d.agents.lacks = "a"
	result, err := d.round()
	require.NoError(t, err)
	persona := d.team.Personas["dev"]
	require.Equal(t, session.BasisOf(spec.AssignmentID{Phase: "build", Persona: "dev"}, persona, own, "why", d.input, nil),
		*result.Basis)
}

func TestAttemptOfAProgramThatAsksAModelIsNotedWithoutABudget(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.agents.conversation = spec.InDirectory
	ends := []*failures.Failure{failures.Failf(failures.Unknown, "no"), nil}
	for _, f := range ends {
		d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
			require.Len(t, d.calls(state.CallBegun), 1, "if its worker dies now, it is not forgotten")
			out, err := leave("a.txt", "x")(ctx, job)
			out.Usage = cost.Usage{OutputTokens: 40}
			if f != nil {
				return out, f
			}
			require.Equal(t, int64(40), d.calls(state.CallBegun)[0].Estimated.Tokens, "what the one before has cost")
			return out, err
		}
		_, _ = d.round()
	}
	require.Equal(t, int64(80), d.costs().Usage.Tokens())
	require.Zero(t, d.costs().Reserved)
}
