package control_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

// asks puts a session into the store that waits for a person.
func (s *shelf) asks(id, team string, requests ...session.Request) {
	s.t.Helper()
	statetest.Put(s.t, s.Store.State, session.Key{Namespace: "default", Session: id}, func(e *session.Execution) {
		e.Team, e.Status.Status, e.Help = team, session.HelpIsNeeded, requests
		e.Phases = []session.PhaseStatus{{Name: "build", Status: session.Running, Assignments: []session.AssignmentStatus{
			{Persona: "dev", AssignmentSummary: session.AssignmentSummary{Status: session.Completed, Summary: "Wrote it.", Files: 3}},
		}}}
	})
}

// What an agent reads of fifty open requests fits into its context, and a person's list has all of them.
func TestAnInboxCanBeBrief(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	for i := range 50 {
		s.asks(fmt.Sprintf("web-%d", i), "web", session.Request{
			ID: fmt.Sprint("r-", i), Kind: session.ForHelp, Phase: "build", Persona: "dev", Message: strings.Repeat("it is red; ", 300),
			Suggestion: strings.Repeat("look ", 100),
			Actions:    []session.Action{session.AnswerRetry, session.AnswerSkip},
			Attempts:   []session.AttemptFailure{{Message: strings.Repeat("long ", 100)}}, Since: time.Now(),
		})
	}
	s.asks("docs-1", "docs", session.Request{
		ID: "r", Kind: session.ForApproval, Phase: "build",
		Actions: []session.Action{session.AnswerApprove}, Since: time.Now(),
	})
	inbox := func(f control.InboxFilter) control.Inbox {
		doc, err := control.Requests{Base: s.Base}.Inbox(s.ctx, f)
		require.NoError(t, err)
		return doc
	}
	require.Len(t, inbox(control.InboxFilter{}).Waiting, 51)
	brief := inbox(control.InboxFilter{Limit: 25, Brief: true})
	require.Equal(t, 26, brief.Left)
	data, err := json.Marshal(brief)
	require.NoError(t, err)
	require.Less(t, len(data), 20_000)
	one := inbox(control.InboxFilter{Team: "docs", Kind: session.ForApproval}).Waiting
	require.Len(t, one, 1)
	require.Equal(t, "Wrote it.", one[0].Summary)
	require.Equal(t, 3, one[0].Files)
	require.Empty(t, inbox(control.InboxFilter{Team: "docs", Kind: session.ForHelp}).Waiting)
}

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
