package cli_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/store"
)

func TestPeopleAreInvitedListedAndRevoked(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.emptyStore()
	d.ends(1, "no server runs for this store", "people", "invite", "ann", "--role", "viewer")
	d.served(nil, "viewer")
	link := d.must(0, "people", "invite", "ann", "--role", "approver", "--role", "viewer:shop", "--team", "web", "--group", "leads")
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/login/join\?code=\S{43}\n$`, link)
	got := d.run("people", "invite", "eva", "--role", "viewer", "--expires", "12h")
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
	d.ends(1, "ann has an account", "serve", "--link", "--as", "ann", "--role", "viewer")
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

func TestTokensAreCreatedListedAndRevoked(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.emptyStore()
	got := d.ends(0, "operator:web, viewer; it is not shown again", "token", "create", "ci", "--role", "operator:web",
		"--role", "viewer", "--expires", "30d")
	secret := strings.TrimSpace(got.stdout.String())
	require.Regexp(t, `^maestro_\S{43}$`, secret)

	var list struct {
		Tokens []struct{ ID, State, By string }
	}
	d.json(&list, "token", "list")
	require.Len(t, list.Tokens, 1)
	require.Equal(t, "active", list.Tokens[0].State)
	require.Contains(t, list.Tokens[0].By, "@desk")
	require.NotContains(t, d.run("token", "list").stdout.String(), secret)

	d.must(0, "token", "create", "coder", "--role", "operator", "--agent")
	require.Regexp(t, `(?m)coder \(agent\) +active +operator `, d.must(0, "token", "list"))
	d.ends(2, "exists already", "token", "create", "ci", "--role", "viewer")
	d.must(0, "token", "revoke", list.Tokens[0].ID)
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

func TestTheAuditLogIsListed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.ends(2, "is not a store", "audit")

	s, err := store.Create(d.state, store.Options{Clock: time.Now})
	require.NoError(t, err)
	d.ends(0, "no events", "audit")

	log := access.NewAudit(s.State, time.Now)
	ctx := access.With(context.Background(), access.Local("ann@desk"))
	for _, id := range []string{"s1", "s2"} {
		e := access.Event{
			Action: "session.cancel", Session: id, Team: "web", Detail: "=HYPERLINK(\"http://evil.example\")\x1b[2J",
		}
		require.NoError(t, log.Change(ctx, access.Operate, e, func(context.Context) error { return nil }))
	}
	got := d.must(0, "audit", "--session", "s1", "--since", "1h", "--actor", "ann@desk")
	require.Regexp(t, `(?m)^WHEN +WHO +VIA +FROM +ACTION +ON +OUTCOME +DETAIL\n\S+ \S+ +ann@desk +cli +- +session.cancel +s1 +done +=HYPERLINK`, got)
	require.NotContains(t, got, "\x1b")

	var page access.EventPage
	d.json(&page, "audit", "--limit", "1", "--action", "session")
	require.Len(t, page.Events, 1)
	require.Equal(t, "s2", page.Events[0].Session)
	d.json(&page, "audit", "--cursor", page.Cursor)
	require.Len(t, page.Events, 1)
	require.Equal(t, "s1", page.Events[0].Session)

	for _, bad := range []string{"--limit 0", "--limit 1001", "--cursor x", "--since yesterday"} {
		got := d.run(append([]string{"audit"}, strings.Fields(bad)...)...)
		require.Equal(t, 2, got.code, "%s: %s", bad, got.stderr.String())
	}
}

func TestAProviderOfSignInsIsNamedCompletely(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for args, want := range map[string]string{
		"--oidc-client-id x":                                                                  "missing --oidc-issuer",
		"--oidc-group a=viewer":                                                               "missing --oidc-issuer",
		"--oidc-issuer https://x.example":                                                     "needs --oidc-client-id",
		"--oidc-issuer https://x.example --oidc-client-id x":                                  "--oidc-group GROUP=ROLE",
		"--oidc-issuer https://x.example --oidc-client-id x --oidc-group a=b":                 `"b" is not a role`,
		"--oidc-person a@b.example=viewer":                                                    "missing --oidc-issuer",
		"--oidc-issuer https://x.example --oidc-client-id x --oidc-person b.example=viewer":   "is not ADDRESS=ROLE",
		"--oidc-issuer https://x.example --oidc-client-id x --oidc-person @b.example=viewer":  "no name before the @",
		"--oidc-issuer https://x.example --oidc-client-id x --oidc-domain a@b.example=viewer": "is not ADDRESS=ROLE or DOMAIN=ROLE",
		"--oidc-issuer https://x.example --oidc-client-id x --oidc-domain b.example=boss":     `"boss" is not a role`,
		"--as ann":                      "belong together",
		"--link --role viewer":          "belong together",
		"--link --as a@b --role viewer": "--as",
		"--link --as ann --role boss":   `"boss" is not a role`,
		"--oidc-issuer https://x.example --oidc-client-id x --oidc-group a=viewer --oidc-secret-file nowhere":   "nowhere",
		"--oidc-issuer https://x.example --oidc-client-id x --oidc-group a=viewer --oidc-secret-file /dev/zero": "larger than 4 KiB",
		"--oidc-issuer https://x.example --oidc-client-id x --oidc-group a=viewer":                              "is not a store",
	} {
		d.ends(2, want, append([]string{"serve"}, strings.Fields(args)...)...)
	}
}
