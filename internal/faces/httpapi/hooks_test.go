package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

func TestHooksAreAddedByHTTP(t *testing.T) {
	t.Parallel()
	h := newService(t)
	var team control.TeamChange
	h.call("PUT", "/teams/web", webTeam).read(t, &team)
	in := map[string]any{
		"name": "tickets", "team": "web", "map": map[string]any{"requirement": "/text"},
		"labels": map[string]any{"from": "tickets"},
	}
	var made control.AddedHook
	h.call("POST", "/hooks", in, "Idempotency-Key", "k").read(t, &made)
	require.Regexp(t, `^whsec_\S{44}$`, made.Secret)
	require.Equal(t, "/hooks/tickets", made.URL)
	require.Equal(t, http.StatusUnprocessableEntity, h.call("POST", "/hooks", in, "Idempotency-Key", "k").status,
		"an answer with a secret is not kept")
	kept := -1
	require.NoError(t, statetest.SQLite(t, h.base.Store.Dir()).QueryRow(`select count(*) from idempotency`).Scan(&kept))
	require.Zero(t, kept)

	var list control.HookList
	got := h.call("GET", "/hooks", nil)
	got.read(t, &list)
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
