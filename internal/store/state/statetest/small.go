package statetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// offersAreRenewed writes offers of workers, and removes them.
func offersAreRenewed(t *testing.T, b *bench) {
	offer := func(worker string, renewed time.Time) spec.Offer {
		return spec.Offer{
			Worker: worker, Identity: "maestro@" + worker, Host: "h", PID: 7, Version: "v1",
			Agents: map[string]spec.OfferedAgent{"coder": {Kind: "command"}},
			Checks: map[string]spec.Digest{"test": "d"}, StartedAt: b.clock.Now().UTC(), RenewedAt: renewed.UTC(),
		}
	}
	now := b.clock.Now()
	require.NoError(t, b.PutOffer(t.Context(), offer("old", now.Add(-31*24*time.Hour))))
	require.NoError(t, b.PutOffer(t.Context(), offer("killed", now.Add(-2*24*time.Hour))))
	require.NoError(t, b.PutOffer(t.Context(), offer("a/b", now.Add(-time.Second))))
	require.NoError(t, b.PutOffer(t.Context(), offer("a/b", now)))
	all, err := b.Offers(t.Context())
	require.NoError(t, err)
	require.Equal(t, []spec.Offer{offer("a/b", now), offer("killed", now.Add(-2*24*time.Hour))}, all)
	for range 2 {
		require.NoError(t, b.RemoveOffer(t.Context(), "a/b"))
	}
	all, err = b.Offers(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
}

// breakersAreChanged by several processes, each of which sees what the others have changed.
func breakersAreChanged(t *testing.T, b *bench) {
	_, err := b.Breaker(t.Context(), "coder")
	require.ErrorIs(t, err, state.ErrNotFound)
	until := b.clock.Now().UTC().Add(time.Minute)
	full := session.BreakerStatus{
		Name: "coder", State: session.BreakerIsOpen, Generation: 3, Trips: 2, OpenUntil: &until, ChangedAt: until,
		Probes: []session.BreakerLease{{Holder: "h", Until: until}}, Forced: &session.BreakerForced{By: "ann", Why: "w"},
		LastFailure: &session.AttemptFailure{Category: "api_error", Message: "503"}, ChangedBy: "ann", Why: "w",
		Settings: spec.Breaker{Name: "coder", Threshold: 5},
	}
	count := func(before session.BreakerStatus, now time.Time) (session.BreakerStatus, bool) {
		after := full
		after.Since, after.Failures = before.Since, before.Failures+1
		return after, true
	}
	atOnce(20, func(int) { assert.NoError(t, b.ChangeBreaker(t.Context(), "coder", "", count)) })
	require.NoError(t, b.ChangeBreaker(t.Context(), "coder", "id", count))
	require.ErrorIs(t, b.ChangeBreaker(t.Context(), "coder", "id", count), state.ErrRepeated)
	unchanged := func(before session.BreakerStatus, _ time.Time) (session.BreakerStatus, bool) {
		before.Failures = 100
		return before, false
	}
	require.NoError(t, b.ChangeBreaker(t.Context(), "coder", "other", unchanged))
	all, err := b.Breakers(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	full.Since, full.Failures = all[0].Since, 21
	require.Equal(t, full, all[0])
}

// laterTicketsStay writes states of a ticket in any order.
func laterTicketsStay(t *testing.T, b *bench) {
	record := func(revision int64, key string) session.TicketRecord {
		return session.TicketRecord{
			Name: "f00", Revision: revision, Ticket: session.Ticket{
				Key: key, URL: "https://jira/" + key, Occurrences: 3,
				Trouble: "refused",
			}, Kind: session.Unclear,
			Deleted: "MD-0", Followers: []session.TicketFollower{{Session: "s", Request: "r"}}, Seen: []string{"a", "b"},
		}
	}
	atOnce(20, func(i int) { assert.NoError(t, b.PutTicket(t.Context(), "default", record(int64(i), "MD-1"))) })
	require.NoError(t, b.PutTicket(t.Context(), "default", record(19, "MD-2")))
	require.NoError(t, b.PutTicket(t.Context(), "default", record(3, "MD-2")))
	stored, err := b.Ticket(t.Context(), "default", "f00")
	require.NoError(t, err)
	require.Equal(t, record(19, "MD-1"), stored)
	_, err = b.Ticket(t.Context(), "other", "f00")
	require.ErrorIs(t, err, state.ErrNotFound, "namespaces have tickets of their own")
}

// teamsHaveVersions registers versions of teams at once.
func teamsHaveVersions(t *testing.T, b *bench) {
	add := func(team, digest string) (bool, int) {
		changed, versions, err := b.AddTeamVersion(t.Context(), state.TeamVersion{
			Team: team, Digest: spec.Digest(digest),
			Text: spec.Digest("text of " + digest), By: "ann",
		})
		assert.NoError(t, err)
		return changed, versions
	}
	digests := func(team string) (all []string) {
		versions, err := b.TeamVersions(t.Context(), team)
		require.NoError(t, err)
		for _, v := range versions {
			all = append(all, v.Team+" "+string(v.Digest))
		}
		return all
	}
	atOnce(8, func(i int) { add("web", fmt.Sprint(i%4)) })
	require.Len(t, digests("web"), 4)
	changed, versions := add("web", "4")
	require.True(t, changed)
	require.Equal(t, 5, versions)
	changed, _ = add("web", "4")
	require.False(t, changed)
	b.clock.Pass(-time.Hour)
	changed, versions = add("web", "2")
	require.True(t, changed)
	require.Equal(t, 5, versions)
	require.Equal(t, []string{"web 2", "web 4"}, digests("web")[:2],
		"an old version that is registered again is the newest, also when the clock is set back")
	for i := range 110 {
		_, versions = add("api", fmt.Sprint(i))
	}
	require.Equal(t, 100, versions)
	require.Equal(t, "api 109", digests("")[0])
	require.Len(t, digests(""), 105)
	require.NoError(t, b.RemoveTeam(t.Context(), "api"))
	require.Empty(t, digests("api"))
}

// laterGenerationsExclude has a process that opened the database before a backup was restored.
func laterGenerationsExclude(t *testing.T, b *bench) {
	run := b.admit(t, "s", "r")
	n := b.begin(t, b.call(dev("s"), run, 10))
	open, err := b.OpenSessions(t.Context())
	require.NoError(t, err)
	require.Equal(t, []session.Key{sessionOf("s")}, open)
	some, err := b.HasSessions(t.Context())
	require.NoError(t, err)
	require.True(t, some)

	require.NoError(t, b.BeginGeneration(t.Context()))
	require.ErrorIs(t, b.End(t.Context(), n.ID, answered(5)), state.ErrRestored, "also what no run and no lease fences")
	require.ErrorIs(t, b.BeginGeneration(t.Context()), state.ErrRestored)
	require.ErrorIs(t, b.RemoveTeam(t.Context(), "web"), state.ErrUnavailable, "it waits for its restart, and fails nothing")
	calls, err := b.Calls(t.Context(), dev("s"))
	require.NoError(t, err)
	require.Equal(t, state.CallBegun, calls[0].State)
}
