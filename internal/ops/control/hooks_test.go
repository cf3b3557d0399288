package control_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

// TestAWorkspaceThatIsGone is the server's, not the caller's: nothing starts, and health names it.
func TestAWorkspaceThatIsGone(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	dir := filepath.Join(t.TempDir(), "site")
	s.Directories = []control.Directory{{
		Name:   "site",
		Source: func(context.Context) session.Source { return session.Source{Dir: dir} },
	}}
	crew := team()
	start := func() error {
		_, err := control.Starts{Base: s.Base}.Preview(s.ctx, control.NewSession{
			Team:      control.TeamInput{Loaded: &crew},
			Directory: "site",
		})
		return err
	}
	s.Examiner = func(context.Context, *store.Store, *temporalutil.Connection, func() time.Time) ([]control.Finding, error) {
		return nil, nil
	}
	var failed *control.Error
	require.ErrorAs(t, start(), &failed)
	require.Equal(t, control.Unavailable, failed.Kind)
	require.Equal(t, "directory site of this server cannot be read: no such file or directory; bring it back, or start the server "+
		"with --workspace site=DIR", failed.Error())
	found, err := control.Health{Base: s.Base}.Examine(s.ctx, control.ExamineInput{Again: true})
	require.NoError(t, err)
	require.Len(t, found.Findings, 1)
	require.Equal(t, "workspace site", found.Findings[0].Check)
	require.Contains(t, found.Findings[0].Message, dir+" cannot be read: no such file or directory")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, start())
}

func TestTheNewestSessionOfAHookIsOfItsTeam(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	for i, name := range []string{"first", "second", "other"} {
		started := time.Unix(int64(1000+i), 0)
		statetest.Put(t, s.Store.State, session.Key{Namespace: "default", Session: name}, func(e *session.Execution) {
			e.Team, e.StartedAt, e.Labels = map[string]string{"other": "api"}[name], &started, map[string]string{"hook": "tickets"}
			if e.Team == "" {
				e.Team = "web"
			}
		})
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
