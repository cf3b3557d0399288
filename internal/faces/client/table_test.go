package client_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/faces/client"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

// TestInputsArriveAsTheyWereSent calls operations of the API of a store, whose answers show their inputs.
func TestInputsArriveAsTheyWereSent(t *testing.T) {
	t.Parallel()
	s, err := store.Create(t.TempDir(), store.Options{Clock: time.Now})
	require.NoError(t, err)
	crew := spec.Team{Name: "web", Phases: []spec.Phase{{Name: "design", Personas: []string{"ann"}}}}
	now := time.Now().UTC()
	for id, age := range map[string]time.Duration{"old": time.Hour, "new": time.Minute} {
		statetest.Put(t, s.State, session.Key{Namespace: "default", Session: id}, func(e *session.Execution) {
			started := now.Add(-age)
			e.Status = session.NewStatus(id, crew)
			e.Status.Status, e.StartedAt, e.Run = session.Completed, &started, 1
		})
	}
	base := &control.Base{Store: s, Namespace: "default", Audit: access.NewAudit(s.State, time.Now), Now: time.Now, Serves: true}
	api := httpapi.New(base, "test")
	c, _ := answering(t, func(w http.ResponseWriter, r *http.Request) {
		api.ServeHTTP(w, r.WithContext(access.With(r.Context(), access.Local("ann@host"))))
	})
	ctx := t.Context()

	list, err := client.Call(ctx, c, httpapi.ListSessions, control.SessionFilter{
		Team: "web", Status: session.Completed,
		Since: now.Add(-10 * time.Minute),
	})
	require.NoError(t, err)
	require.Len(t, list.Sessions, 1, "in the query: a text, a state, a time")
	require.Equal(t, "new", list.Sessions[0].Session)
	list, err = client.Call(ctx, c, httpapi.ListSessions, control.SessionFilter{Labels: []string{"a=b", "c=d"}})
	require.NoError(t, err)
	require.Empty(t, list.Sessions, "in the query: a list")
	_, err = client.Call(ctx, c, httpapi.ListSessions, control.SessionFilter{Labels: []string{"a"}})
	var wrong *control.Error
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, control.Invalid, wrong.Kind)

	sums, err := client.Call(ctx, c, httpapi.ReadStatistics, control.HistoryFilter{
		By:    []string{"team", "persona"},
		Teams: []string{"web", "api"},
	})
	require.NoError(t, err)
	require.Equal(t, []string{"team", "persona"}, sums.By, "in the query: a list with commas")
	sums, err = client.Call(ctx, c, httpapi.ReadStatistics, control.HistoryFilter{})
	require.NoError(t, err)
	require.Equal(t, []string{"team"}, sums.By)

	_, err = client.Call(ctx, c, httpapi.ReadSession, httpapi.OfSession{Session: "../../.."})
	require.ErrorAs(t, err, &wrong, "in the path: a name that would lead elsewhere")
	_, err = client.Call(ctx, c, httpapi.RaiseDayBudget, httpapi.NameBody[control.DayRaise]{
		Name: "web",
		Body: control.DayRaise{Tokens: 1},
	})
	require.ErrorAs(t, err, &wrong, "in the path and the body")
	require.Equal(t, control.NotFound, wrong.Kind)
	_, err = client.Call(ctx, c, httpapi.ResumeSession, httpapi.SessionBody[*control.Resume]{Session: "old"})
	require.Equal(t, control.NoTemporal, control.ProblemOf(err).Reason, "without a body")
}

// TestALoadedTeamIsSentAsAFile: a server does not have the files of its caller.
func TestALoadedTeamIsSentAsAFile(t *testing.T) {
	t.Parallel()
	var got control.NewSession
	c, _ := answering(t, func(w http.ResponseWriter, r *http.Request) {
		got = control.NewSession{}
		if json.NewDecoder(r.Body).Decode(&got) != nil || r.Header.Get("Content-Type") != "application/json" {
			problem(w, http.StatusBadRequest, "no JSON")
			return
		}
		_, _ = w.Write([]byte(`{}`))
	})
	start := func(team control.TeamInput) control.TeamInput {
		_, err := client.Call(t.Context(), c, httpapi.StartSession,
			httpapi.Body[control.NewSession]{Body: control.NewSession{Team: team}})
		require.NoError(t, err)
		return got.Team
	}
	require.Contains(t, start(control.TeamInput{Loaded: &spec.Team{Name: "web"}}).File, `"name":"web"`)
	require.Equal(t, control.TeamInput{Name: "web@12"}, start(control.TeamInput{Name: "web@12", Loaded: &spec.Team{Name: "web"}}))
}
