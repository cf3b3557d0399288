package cli_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
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

// TestAnInvitedPersonApproves invites a person, who chooses a password, signs in as a browser does, and approves.
func TestAnInvitedPersonApproves(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{"writer": heedingWriter, "coder": coderScript})
	server := d.served(nil, "viewer").url
	server = strings.TrimSuffix(server, "/api/v1")
	link := strings.TrimSpace(d.must(0, "people", "invite", "ann", "--role", "approver", "--team", "pair"))
	_, code, _ := strings.Cut(link, "code=")
	team := strings.Replace(approvedTeam, "approve: true", "approve: {count: 1}", 1)
	d.must(3, "run", d.file("team.yaml", team), "Make it so.", "--session", "s", "--watch")
	asked := d.asked("s", "think", session.ForApproval)

	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Jar: jar}
	post := func(path string, fields url.Values) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server+path, strings.NewReader(fields.Encode()))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Accept", "text/html")
		r.Header.Set("Origin", server)
		got, err := browser.Do(r)
		require.NoError(t, err)
		defer got.Body.Close()
		text, err := io.ReadAll(got.Body)
		require.NoError(t, err)
		return got.StatusCode, string(text)
	}
	status, text := post("/login/join", url.Values{
		"code": {code}, "password": {"correct horse battery"},
		"again": {"correct horse battery"},
	})
	require.Equal(t, 200, status, text)
	require.Contains(t, text, "ann")
	status, text = post("/sessions/s/cancel", url.Values{})
	require.Equal(t, 403, status, text)
	status, text = post("/sessions/s/requests/"+asked.ID+"/answer", url.Values{"action": {"approve"}, "note": {"Agreed."}})
	require.Equal(t, 200, status, text)
	until(t, func() bool {
		var s session.Status
		d.json(&s, "status", "s")
		return s.Status != session.AwaitingApproval
	}, "the approval does not count")
	require.Contains(t, d.must(0, "status", "s"), "think: approve by ann: Agreed.")
	require.Regexp(t, `(?m)ann +account +127\.0\.0\.1 +request\.approve .* done`, d.must(0, "audit", "--actor", "ann"))
	require.Regexp(t, `(?m)^ann +active +approver:pair `, d.must(0, "people", "show", "ann"))

	d.must(0, "people", "revoke", "ann")
	got, err := browser.Get(server + "/inbox")
	require.NoError(t, err)
	require.NoError(t, got.Body.Close())
	require.Equal(t, http.StatusUnauthorized, got.StatusCode)
}
