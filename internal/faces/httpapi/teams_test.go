package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
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
	version := "web@" + string(team.Digest[:4])
	pinned := map[string]any{"name": "pinned", "team": version, "kind": "gitlab", "users": []string{"maria"}}
	h.call("POST", "/hooks", pinned).read(t, &made)
	require.Equal(t, "web@"+string(team.Digest), made.Team, "another version may begin so later")
	require.Equal(t, []string{"maria"}, made.Users)
	require.Equal(t, http.StatusOK, h.call("DELETE", "/hooks/tickets", nil, "Idempotency-Key", "d").status)
	again := h.call("DELETE", "/hooks/tickets", nil, "Idempotency-Key", "d")
	require.Equal(t, "true", again.header.Get("Idempotent-Replayed"), "its answer has no secret")
	require.Equal(t, http.StatusNotFound, h.call("DELETE", "/hooks/tickets", nil).status)
}
