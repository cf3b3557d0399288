package httpapi_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
	"github.com/maestro-hive/maestro/internal/testkit/temporalfake"
)

func TestTheTextOfATeamIsBounded(t *testing.T) {
	t.Parallel()
	h := newService(t)
	wrong := h.call("PUT", "/teams/web", map[string]any{"version": 1, "name": "web"})
	require.Equal(t, http.StatusUnprocessableEntity, wrong.status)
	require.Contains(t, string(wrong.body), "personas")
	require.Equal(t, http.StatusUnprocessableEntity, h.call("PUT", "/teams/web", strings.Repeat("x", 3<<19)).status)
	require.Equal(t, http.StatusRequestEntityTooLarge, h.call("PUT", "/teams/web", strings.Repeat("x", 3<<20)).status)
}

func TestHooksAreAddedByHTTP(t *testing.T) {
	t.Parallel()
	h := newService(t)
	team := read[control.TeamChange](t, h.call("PUT", "/teams/web", webTeam))
	in := map[string]any{
		"name": "tickets", "team": "web", "map": map[string]any{"requirement": "/text"},
		"labels": map[string]any{"from": "tickets"},
	}
	made := read[control.AddedHook](t, h.call("POST", "/hooks", in, "Idempotency-Key", "k"))
	require.Regexp(t, `^whsec_\S{44}$`, made.Secret)
	require.Equal(t, "/hooks/tickets", made.URL)
	require.Equal(t, http.StatusUnprocessableEntity, h.call("POST", "/hooks", in, "Idempotency-Key", "k").status,
		"an answer with a secret is not kept")
	kept := -1
	require.NoError(t, statetest.SQLite(t, h.base.Store.Dir()).QueryRow(`select count(*) from idempotency`).Scan(&kept))
	require.Zero(t, kept)

	got := h.call("GET", "/hooks", nil)
	list := read[control.HookList](t, got)
	require.Len(t, list.Hooks, 1)
	require.NotContains(t, string(got.body), made.Secret)
	for field, wrong := range map[string]map[string]any{
		"map":    {"map": map[string]any{"requirement": "text"}},
		"labels": {"labels": map[string]any{"hook": "x"}},
		"on":     {"on": []string{"issues.opened"}},
	} {
		wrong["name"], wrong["team"] = "other", "web"
		got := h.call("POST", "/hooks", wrong)
		require.Equal(t, http.StatusUnprocessableEntity, got.status)
		require.Contains(t, string(got.body), `"location":"`+field+`"`)
	}
	h.call("POST", "/hooks", map[string]any{"name": "pinned", "team": "web@" + string(team.Digest[:4])}).read(t, &made)
	require.Equal(t, "web@"+string(team.Digest), made.Team, "another version may begin so later")
	require.Equal(t, http.StatusOK, h.call("DELETE", "/hooks/tickets", nil, "Idempotency-Key", "d").status)
	again := h.call("DELETE", "/hooks/tickets", nil, "Idempotency-Key", "d")
	require.Equal(t, "true", again.header.Get("Idempotent-Replayed"), "its answer has no secret")
	require.Equal(t, http.StatusNotFound, h.call("DELETE", "/hooks/tickets", nil).status)
}

func TestTheAnswerToAnEventOfAPullRequestNamesTheSession(t *testing.T) {
	t.Parallel()
	h := newService(t)
	temporal := temporalfake.New()
	temporal.Put("web-1", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, time.Now(), nil)
	h.base.Temporal = control.Connected(temporal.Connection())
	require.Equal(t, http.StatusOK, h.call("PUT", "/teams/web", webTeam).status)
	var made control.AddedHook
	h.call("POST", "/hooks", map[string]any{"name": "gl", "team": "web", "kind": "gitlab", "users": []string{"maria"}}).read(t,
		&made)
	require.Equal(t, []string{"maria"}, made.Users)
	key := session.Key{Namespace: "default", Session: "web-1"}
	statetest.Put(t, h.base.Store.State, key, func(e *session.Execution) { e.Team = "web" })
	require.NoError(t, h.base.Store.State.PutDelivery(t.Context(), state.Fence{Run: 1}, "delivery", state.Delivery{
		Key: key, Phase: "ship", Record: delivery.Record{Repository: "octo/web/site", Number: 12, State: delivery.Open},
	}))
	inbound := httpapi.NewInbound(control.NewReceiver(h.base), slog.New(slog.DiscardHandler))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		actor, identified, err := inbound.Identify(r)
		if err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inbound.ServeHTTP(w, identified.WithContext(access.With(identified.Context(), actor)))
	}))
	t.Cleanup(server.Close)
	post := func(token, number string) (status int, text string) {
		body := `{"object_kind": "merge_request", "project": {"path_with_namespace": "octo/web/site"}, "object_attributes": {"iid": ` +
			number + `}}`
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+made.URL, strings.NewReader(body))
		require.NoError(t, err)
		r.Header = http.Header{"Content-Type": {"application/json"}, "X-Gitlab-Token": {token}}
		got, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer got.Body.Close()
		data, err := io.ReadAll(got.Body)
		require.NoError(t, err)
		return got.StatusCode, string(data)
	}
	status, text := post(made.Secret, "12")
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"hook": "gl", "woken": "web-1"}`, text)
	status, text = post(made.Secret, "13")
	require.Equal(t, http.StatusAccepted, status)
	require.JSONEq(t, `{"hook": "gl", "ignored": "it is a pull request, and no session of the hook's team waits for it"}`, text)
	status, _ = post("whsec_x", "12")
	require.Equal(t, http.StatusUnauthorized, status)
}
