package control

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

// Without Temporal, lists and statistics say what the store's documents say at that moment.
func TestListsAndStatisticsFollowTheStore(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	b, s, ctx := k.Base, k.Store, k.ctx
	sessions, money := Sessions{Base: b}, Money{Base: b}
	began := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	put := func(name, team string, state session.State) {
		statetest.Put(t, s.State, b.key(name), func(e *session.Execution) {
			e.Team, e.Status.Status, e.StartedAt = team, state, &began
			e.Phases = []session.PhaseStatus{{Name: "build", Status: state, Assignments: []session.AssignmentStatus{
				{Persona: "dev", AssignmentSummary: session.AssignmentSummary{Status: state, Attempts: 2}},
			}}}
		})
	}
	put("one", "web", session.Running)
	put("two", "web", session.Completed)
	put("three", "api", session.Failed)
	list := func(f SessionFilter) (names []string) {
		f.Limit = 10
		doc, err := sessions.List(ctx, f)
		require.NoError(t, err)
		for _, l := range doc.Sessions {
			names = append(names, l.Session)
		}
		return names
	}
	require.Equal(t, []string{"one", "three", "two"}, list(SessionFilter{}))
	require.Equal(t, []string{"one"}, list(SessionFilter{Team: "web", Status: session.Running}))
	put("one", "web", session.Completed)
	require.Equal(t, []string{"one", "two"}, list(SessionFilter{Status: session.Completed}))
	doc, err := sessions.List(ctx, SessionFilter{Limit: 2})
	require.NoError(t, err)
	require.Equal(t, []string{"two"}, list(SessionFilter{Cursor: doc.Cursor}))

	one := access.With(t.Context(), access.Actor{Name: "bob", Roles: access.Roles{"api": {access.RoleViewer}}})
	doc, err = sessions.List(one, SessionFilter{Limit: 1})
	require.NoError(t, err)
	require.Len(t, doc.Sessions, 1)
	require.Equal(t, "three", doc.Sessions[0].Session, "who may see one team gets pages of its sessions")
	require.False(t, doc.More)

	groups, err := sessions.Statistics(ctx, HistoryFilter{By: []string{"team"}})
	require.NoError(t, err)
	require.Len(t, groups.Groups, 2)
	require.Equal(t, "web", groups.Groups[1].Team)
	require.InDelta(t, 1, groups.Groups[1].Sessions.SuccessRate(), 0)
	require.InDelta(t, 2, groups.Groups[1].Assignments.AttemptsEach(), 0)
	require.InDelta(t, 0, groups.Groups[0].Assignments.SuccessRate(), 0)

	var denied *access.DeniedError
	_, err = sessions.Statistics(one, HistoryFilter{By: []string{"team"}, Teams: []string{""}})
	require.ErrorAs(t, err, &denied, "sessions of an unknown team")

	var wrong *Error
	_, err = sessions.Statistics(ctx, HistoryFilter{By: []string{"session"}})
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, Invalid, wrong.Kind)
	_, err = money.Usage(ctx, UsageFilter{HistoryFilter: HistoryFilter{By: []string{"day", "day"}}})
	require.ErrorAs(t, err, &wrong)
	sums, err := money.Usage(ctx, UsageFilter{HistoryFilter: HistoryFilter{By: []string{"team"}}})
	require.NoError(t, err)
	require.Empty(t, sums.Rows)
}
