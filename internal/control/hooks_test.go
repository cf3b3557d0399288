package control_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/session"
)

func TestTheNewestSessionOfAHookIsOfItsTeam(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	for i, name := range []string{"first", "second", "other"} {
		started := time.Unix(int64(1000+i), 0)
		require.NoError(t, s.Store.UpdateExecution(session.Key{Namespace: "default", Session: name}, func(e *session.Execution) {
			e.Team, e.StartedAt, e.Labels = map[string]string{"other": "api"}[name], &started, map[string]string{"hook": "tickets"}
			if e.Team == "" {
				e.Team = "web"
			}
		}))
	}
	of := []access.Hook{{Name: "tickets", Team: "web"}, {Name: "unused", Team: "web"}}
	newest, err := control.Hooks{Base: s.Base}.Newest(s.ctx, of)
	require.NoError(t, err)
	require.Len(t, newest, 1)
	require.Equal(t, "second", newest["tickets"].Session)
	stranger := access.With(t.Context(), access.Actor{Name: "eve", Roles: access.Roles{"api": {access.RoleAdmin}}})
	newest, err = control.Hooks{Base: s.Base}.Newest(stranger, of)
	require.NoError(t, err)
	require.Empty(t, newest)
}
