package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/team"
)

func TestConversationOfACutOffIncarnationGoesOnOnce(t *testing.T) {
	t.Parallel()
	const run = "default-test-run-id"
	cutOff := team.RoundRecord{Key: team.RoundKey{Run: "before", Activity: "1"}, Round: 1, Epoch: 1, RoundLog: team.RoundLog{Begun: 1}}
	gaveUp := team.RoundRecord{Key: team.RoundKey{Run: run, Activity: "failed"}, Round: 1, Epoch: 1, GaveUp: true}
	for _, test := range []struct {
		name   string
		rounds []team.RoundRecord
		goesOn bool
	}{
		{"at the beginning", []team.RoundRecord{cutOff}, true},
		{"not in the round after a failed one", []team.RoundRecord{cutOff, gaveUp}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.agents.conversation, d.agents.continuable = team.InDirectory, true
			_, err := d.store.UpdateRecord(d.key(), team.AssignmentID{Phase: "build", Persona: "dev"}, 1, func(r *team.Record) {
				r.Epoch, r.Rounds = 1, test.rounds
			})
			require.NoError(t, err)
			goesOn := false
			d.agents.run = func(ctx context.Context, job team.Job) (team.Outcome, error) {
				goesOn = job.Continues
				return leave("a.txt", "x")(ctx, job)
			}
			_, err = d.round(activities.Heartbeat{})
			require.NoError(t, err)
			require.Equal(t, test.goesOn, goesOn)
		})
	}
}

func TestRoundAfterAFenceIsOfTheRecordsEpoch(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	_, err := d.store.UpdateRecord(d.key(), team.AssignmentID{Phase: "build", Persona: "dev"}, 1, func(*team.Record) {})
	require.NoError(t, err)
	_, err = d.round(activities.Heartbeat{})
	require.NoError(t, err)
	require.Equal(t, 1, d.record().Epoch)
	require.Equal(t, 1, d.record().Rounds[0].Epoch)
}

func TestBasisNamesThePersonasAgentWhereverItsFallbackWorks(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	own := team.OfferedAgent{Kind: "anthropic", Model: "dear"}
	require.NoError(t, d.store.PutOffer(t.Context(), team.Offer{Worker: "w", RenewedAt: time.Now(), Agents: map[string]team.OfferedAgent{"a": own}}))
	d.agents.lacks = "a"
	result, err := d.round(activities.Heartbeat{})
	require.NoError(t, err)
	persona := d.team.Personas["dev"]
	require.Equal(t, team.BasisOf(team.AssignmentID{Phase: "build", Persona: "dev"}, persona, own, "why", d.input, nil), *result.Basis)
}

func TestAttemptOfAProgramThatAsksAModelIsNotedWithoutABudget(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.agents.conversation = team.InDirectory
	ends := []*team.Failure{team.Failf(team.Unknown, "no"), nil}
	for _, f := range ends {
		d.agents.run = func(ctx context.Context, job team.Job) (team.Outcome, error) {
			require.Len(t, d.journal().Open(), 1, "if its worker dies now, it is not forgotten")
			out, err := leave("a.txt", "x")(ctx, job)
			out.Usage = team.Usage{OutputTokens: 40}
			if f != nil {
				return out, f
			}
			require.Equal(t, int64(40), d.journal().Open()[0].Estimate.Tokens(), "what the one before has cost")
			return out, err
		}
		_, _ = d.round(activities.Heartbeat{})
	}
	require.Equal(t, int64(80), d.journal().Spent().Tokens())
	require.Zero(t, d.ledger().Reserved())
}

func TestAttemptThatBeginsAnewHasNoEarlierConversationToGoOnWith(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.agents.conversation = team.InDirectory
	d.agents.run = func(context.Context, team.Job) (team.Outcome, error) {
		d.agents.continuable = true
		return team.Outcome{}, team.Failf(team.InvalidOutput, "no")
	}
	_, err := d.round(activities.Heartbeat{})
	requireType(t, err, team.RecoverableError)
	d.agents.run = func(_ context.Context, job team.Job) (team.Outcome, error) {
		require.False(t, job.Continues)
		return team.Outcome{}, errKilled // before it has one
	}
	for range 2 {
		_, err = d.round(activities.Heartbeat{})
		require.Error(t, err)
	}
}
