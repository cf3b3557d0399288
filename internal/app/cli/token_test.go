package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/store"
)

func TestTokensAreCreatedListedAndRevoked(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	_, err := store.Create(d.state, store.Options{Clock: time.Now})
	require.NoError(t, err)
	got := d.run("token", "create", "ci", "--role", "operator:web", "--role", "viewer", "--expires", "30d")
	require.Equal(t, 0, got.code, got.stderr.String())
	secret := strings.TrimSpace(got.stdout.String())
	require.Regexp(t, `^maestro_\S{43}$`, secret)
	require.Contains(t, got.stderr.String(), "operator:web, viewer; it is not shown again")

	var list struct {
		Tokens []struct{ ID, Name, State, By string }
	}
	d.json(&list, "token", "list")
	require.Len(t, list.Tokens, 1)
	require.Equal(t, "active", list.Tokens[0].State)
	require.Contains(t, list.Tokens[0].By, "@desk")
	require.NotContains(t, d.run("token", "list").stdout.String(), secret)

	d.must(0, "token", "create", "coder", "--role", "operator", "--agent")
	require.Regexp(t, `(?m)coder \(agent\) +active +operator `, d.must(0, "token", "list"))
	got = d.run("token", "create", "ci", "--role", "viewer")
	require.Equal(t, 2, got.code)
	require.Contains(t, got.stderr.String(), "exists already")
	got = d.run("token", "revoke", list.Tokens[0].ID)
	require.Equal(t, 0, got.code, got.stderr.String())
	require.Regexp(t, `(?m)ci +revoked +operator:web, viewer `, d.run("token", "list").stdout.String())
	require.Equal(t, 2, d.run("token", "revoke", "nowhere").code)
	require.Contains(t, d.run("audit").stdout.String(), "token.revoke")

	for _, bad := range []string{
		"create x", "create x --role root", "create x --role viewer:../x",
		"create x --role viewer --expires soon", "create a@b --role viewer", "revoke",
	} {
		require.Equal(t, 2, d.run(append([]string{"token"}, strings.Fields(bad)...)...).code, bad)
	}
}
