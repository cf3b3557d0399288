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
