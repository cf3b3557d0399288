package httpapi_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
)

func TestTokensAndTheAuditLog(t *testing.T) {
	t.Parallel()
	h := newService(t)
	type token struct{ ID, State, Token, By string }
	body := map[string]any{"name": "ci", "roles": []string{"operator:web"}, "for": "1h"}
	got := h.call("POST", "/tokens", body, "Idempotency-Key", "k")
	made := read[token](t, got)
	require.True(t, strings.HasPrefix(made.Token, access.TokenPrefix))
	require.Equal(t, http.StatusUnprocessableEntity, h.call("POST", "/tokens", body, "Idempotency-Key", "k").status,
		"the name is taken")
	require.NoError(t, filepath.WalkDir(h.base.Store.Dir(), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		require.NotContains(t, string(data), made.Token, path)
		return err
	}))
	var list struct{ Tokens []token }
	h.call("GET", "/tokens", nil).read(t, &list)
	require.Len(t, list.Tokens, 1)
	require.Empty(t, list.Tokens[0].Token)
	require.Equal(t, "ann@host", list.Tokens[0].By)
	require.Equal(t, http.StatusNotFound, h.call("DELETE", "/tokens/nowhere", nil).status)
	h.call("DELETE", "/tokens/"+made.ID, nil).read(t, &made)
	require.Equal(t, "revoked", made.State)

	page := read[access.EventPage](t, h.call("GET", "/audit?action=token&limit=2", nil))
	require.Equal(t, "token.revoke", page.Events[0].Action)
	require.Equal(t, http.StatusUnprocessableEntity, h.call("GET", "/audit?cursor=x", nil).status)

	h.actor = access.Actor{Name: "bob", Roles: access.Roles{"web": {access.RoleAdmin}, access.AllTeams: {access.RoleOperator}}}
	require.Equal(t, http.StatusForbidden, h.call("GET", "/audit", nil).status)
	require.Equal(t, http.StatusOK, h.call("GET", "/audit?team=web", nil).status)
	require.Equal(t, http.StatusForbidden, h.call("GET", "/audit?team=api", nil).status)
	require.Equal(t, http.StatusForbidden,
		h.call("POST", "/tokens", map[string]any{"name": "x", "roles": []string{"viewer"}}).status)
	me := read[access.Actor](t, h.call("GET", "/me", nil))
	require.Equal(t, "bob", me.Name)
}
