package control_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

// TestAlertsOfSessionsAreForThoseWhoSeeThem lists the alerts of sessions of two teams.
func TestAlertsOfSessionsAreForThoseWhoSeeThem(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	alerts := control.Alerts{Base: s.Base}
	for i, team := range []string{"web", "docs", "web"} {
		key := session.Key{Namespace: "default", Session: fmt.Sprintf("s%d", i)}
		statetest.Put(t, s.Store.State, key, func(e *session.Execution) {
			e.Session, e.Team = key.Session, team
			if i < 2 {
				e.Alerts = []session.Alert{
					{Rule: "tokens: 5", At: time.Now().Add(-25 * time.Hour)},
					{Rule: "tokens: 9", At: time.Now().Add(-time.Duration(i+1) * time.Hour)},
				}
			}
		})
	}
	names := func(roles access.Roles) (all []string) {
		doc, err := alerts.List(access.With(t.Context(), access.Actor{Name: "bob", Roles: roles}))
		require.NoError(t, err)
		for _, a := range doc.Alerts {
			all = append(all, a.Session+" "+a.Team+" "+a.Rule)
		}
		return all
	}
	require.Equal(t, []string{"s0 web tokens: 9", "s1 docs tokens: 9"}, names(access.Roles{access.AllTeams: {access.RoleViewer}}))
	require.Equal(t, []string{"s1 docs tokens: 9"}, names(access.Roles{"docs": {access.RoleViewer}}))
}

// TestADenialTellsNothingOfASession to whom its team is not shown: neither that it exists, nor whose it is.
func TestADenialTellsNothingOfASession(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	for _, team := range []string{"web", "docs"} {
		key := session.Key{Namespace: "default", Session: "of-" + team}
		statetest.Put(t, s.Store.State, key, func(e *session.Execution) { e.Session, e.Team = key.Session, team })
	}
	ctx := access.With(t.Context(), access.Actor{Name: "bob", Roles: access.Roles{"docs": {access.RoleViewer}}})
	starts := control.Starts{Base: s.Base}
	of := func(session string) (texts []string) {
		_, seen := control.Sessions{Base: s.Base}.Read(ctx, session)
		_, previewed := starts.PreviewResume(ctx, session, control.Resume{})
		_, uploaded := starts.Upload(ctx, control.Recipient{Session: session}, nil)
		_, cancelled := control.Sessions{Base: s.Base}.Cancel(ctx, session)
		for _, err := range []error{seen, previewed, uploaded, cancelled, starts.MayUpload(ctx, control.Recipient{Session: session})} {
			require.ErrorAs(t, err, new(*access.DeniedError))
			texts = append(texts, err.Error())
		}
		return texts
	}
	require.Equal(t, of("of-nobody"), of("of-web"))
	require.NotContains(t, of("of-web")[0], "web")
	_, err := starts.PreviewResume(ctx, "of-docs", control.Resume{})
	require.ErrorContains(t, err, "for team docs is missing", "who sees a session is told its team")
}
