package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/store"
)

func TestPeopleAreInvitedListedAndRevoked(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	_, err := store.Create(d.state, store.Options{Clock: time.Now})
	require.NoError(t, err)
	got := d.run("people", "invite", "ann", "--role", "viewer")
	require.Equal(t, 1, got.code)
	require.Contains(t, got.stderr.String(), "no server runs for this store")
	d.served(nil, "viewer")
	link := d.must(0, "people", "invite", "ann", "--role", "approver", "--role", "viewer:shop", "--team", "web", "--group", "leads")
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/login/join\?code=\S{43}\n$`, link)
	got = d.run("people", "invite", "eva", "--role", "viewer", "--expires", "12h")
	require.Regexp(t, `the link is for eva and nobody else, works once, until \d{4}-\S+ \S+,`, got.stderr.String())
	require.Contains(t, got.stderr.String(), "opens on this machine only; for others, start the server with --host NAME")
	require.Regexp(t, `(?m)^ann +invited +approver:web, viewer:shop +leads `, d.must(0, "people", "list"))
	require.Contains(t, d.must(0, "people", "show", "ann"), "signs in by: no password, 0 passkeys")
	require.Contains(t, d.must(0, "people", "role", "ann", "--role", "operator"), "operator")
	require.Regexp(t, `(?m)^ann +invited +operator +leads `, d.must(0, "people", "list"))
	d.must(0, "people", "role", "ann", "--role", "operator", "--group", "")
	require.NotContains(t, d.must(0, "people", "list"), "leads")
	require.NotEqual(t, link, d.must(0, "people", "reset", "ann"))
	require.Contains(t, d.must(0, "serve", "--link", "--as", "eve", "--role", "viewer:web"), "/login?code=")
	got = d.run("serve", "--link", "--as", "ann", "--role", "viewer")
	require.Equal(t, 1, got.code)
	require.Contains(t, got.stderr.String(), "ann has an account")
	d.must(0, "people", "revoke", "ann")
	require.Regexp(t, `(?m)^ann +revoked `, d.must(0, "people", "list"))
	for _, bad := range []string{
		"invite bob", "invite bob --role root", "invite ann --role viewer", "invite bob --role viewer --expires soon",
		"invite bob --role viewer --expires 90d",
		"invite a@b --role viewer", "role bob --role viewer", "role ann", "show bob", "reset bob", "revoke bob",
	} {
		require.Equal(t, 2, d.run(append([]string{"people"}, strings.Fields(bad)...)...).code, bad)
	}
	require.Contains(t, d.must(0, "audit"), "person.revoke")
}
