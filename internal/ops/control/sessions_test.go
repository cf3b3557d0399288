package control

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
	"github.com/maestro-hive/maestro/internal/testkit/temporalfake"
	"github.com/maestro-hive/maestro/workflows"
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

// Temporal lists 200 old sessions of team web that run, and then newer ones that have ended, as servers with SQLite do.
func TestTheNewestSessionsNeedNotBeThoseThatTemporalListsFirst(t *testing.T) {
	t.Parallel()
	s, err := store.Create(filepath.Join(t.TempDir(), "store"), store.Options{Clock: time.Now})
	require.NoError(t, err)
	began := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	temporal := temporalfake.New()
	put := func(id, team string, status enumspb.WorkflowExecutionStatus, started time.Time) {
		temporal.Put(id, status, started, map[string]any{workflows.MemoTeam: team, workflows.MemoStore: s.ID()})
	}
	for i := range listPage {
		put(fmt.Sprintf("old-%03d", i), "web", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, began)
	}
	put("killed", "api", enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, began.Add(time.Hour))
	b := &Base{Store: s, Namespace: "default", Now: time.Now, Temporal: Connected(temporal.Connection())}
	for _, name := range []string{"killed", "lost"} {
		started := began.Add(time.Hour)
		statetest.Put(t, s.State, b.key(name), func(e *session.Execution) {
			e.Team, e.Status.Status, e.StartedAt = "api", session.Running, &started
		})
	}

	doc, err := Sessions{b}.List(access.With(t.Context(), access.Local("ann")), SessionFilter{Limit: 3})
	require.NoError(t, err)
	require.True(t, doc.More)
	require.Equal(t, []string{"killed", "lost", "old-000"}, []string{
		doc.Sessions[0].Session, doc.Sessions[1].Session,
		doc.Sessions[2].Session,
	})
	require.Equal(t, []bool{true, false, true}, []bool{doc.Sessions[0].Temporal, doc.Sessions[1].Temporal, doc.Sessions[2].Temporal})
	require.Equal(t, session.Failed, doc.Sessions[0].Status, "the store's document is older than its end")

	one := access.With(t.Context(), access.Actor{Name: "bob", Roles: access.Roles{"api": {access.RoleViewer}}})
	doc, err = Sessions{&Base{Namespace: "default", Now: time.Now, Temporal: b.Temporal}}.List(one, SessionFilter{Limit: 3})
	require.NoError(t, err)
	require.Len(t, doc.Sessions, 1)
	require.Equal(t, "killed", doc.Sessions[0].Session)
}
