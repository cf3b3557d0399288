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
	var made token
	got := h.call("POST", "/tokens", body, "Idempotency-Key", "k")
	got.read(t, &made)
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
	for _, bad := range []map[string]any{
		{"name": "x"},
		{"name": "x", "roles": []string{}},
		{"name": "x", "roles": []string{"root"}},
		{"name": "a@b", "roles": []string{"viewer"}},
		{"name": "x", "roles": []string{"viewer"}, "for": "-1h"},
		{"name": "x", "roles": []string{"viewer"}, "more": 1},
	} {
		require.Equal(t, http.StatusUnprocessableEntity, h.call("POST", "/tokens", bad).status, "%v", bad)
	}
	var list struct{ Tokens []token }
	h.call("GET", "/tokens", nil).read(t, &list)
	require.Len(t, list.Tokens, 1)
	require.Empty(t, list.Tokens[0].Token)
	require.Equal(t, "ann@host", list.Tokens[0].By)
	require.Equal(t, http.StatusNotFound, h.call("DELETE", "/tokens/nowhere", nil).status)
	h.call("DELETE", "/tokens/"+made.ID, nil).read(t, &made)
	require.Equal(t, "revoked", made.State)

	var page access.EventPage
	h.call("GET", "/audit?action=token&limit=2", nil).read(t, &page)
	require.Equal(t, "token.revoke", page.Events[0].Action)
	require.Equal(t, http.StatusUnprocessableEntity, h.call("GET", "/audit?cursor=x", nil).status)

	h.actor = access.Actor{Name: "bob", Roles: access.Roles{"web": {access.RoleAdmin}, access.AllTeams: {access.RoleOperator}}}
	require.Equal(t, http.StatusForbidden, h.call("GET", "/audit", nil).status)
	require.Equal(t, http.StatusOK, h.call("GET", "/audit?team=web", nil).status)
	require.Equal(t, http.StatusForbidden, h.call("GET", "/audit?team=api", nil).status)
	require.Equal(t, http.StatusForbidden,
		h.call("POST", "/tokens", map[string]any{"name": "x", "roles": []string{"viewer"}}).status)
	var me access.Actor
	h.call("GET", "/me", nil).read(t, &me)
	require.Equal(t, "bob", me.Name)
	h.actor = access.Actor{}
	for _, path := range []string{"/me", "/audit", "/tokens"} {
		require.Equal(t, http.StatusUnauthorized, h.call("GET", path, nil).status, path)
	}
}
