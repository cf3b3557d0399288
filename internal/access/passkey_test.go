//go:build system

package access_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/testkit/webtest"
)

// device is a Chromium with an authenticator.
type device struct {
	*site
	ctx context.Context
	key webauthn.AuthenticatorID
}

func (s *site) device() *device {
	s.t.Helper()
	ctx := webtest.Start(s.t, 800, 600)
	_, err := chromedp.Call(ctx, webauthn.Enable, webauthn.EnableParams{})
	require.NoError(s.t, err)
	made, err := chromedp.Call(ctx, webauthn.AddVirtualAuthenticator,
		webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
			Protocol: "ctap2", Transport: "internal", HasResidentKey: true, HasUserVerification: true, IsUserVerified: true,
			AutomaticPresenceSimulation: true,
		}})
	require.NoError(s.t, err)
	return &device{s, ctx, made.AuthenticatorID}
}

// visit goes to a page at localhost, where passkeys work.
func (d *device) visit(path string) {
	d.t.Helper()
	require.NoError(d.t, chromedp.Do(d.ctx, chromedp.Navigate(strings.Replace(d.url, "127.0.0.1", "localhost", 1)+path)))
}

// press presses the button for passkeys.
func (d *device) press() {
	d.t.Helper()
	require.NoError(d.t, chromedp.Do(d.ctx, chromedp.Click("[data-passkey] button", chromedp.NodeVisible)))
}

// shows waits until the page has a text.
func (d *device) shows(text string) {
	d.t.Helper()
	var page string
	require.Eventually(d.t, func() bool {
		var err error
		page, err = webtest.Evaluate[string](d.ctx, `document.body.innerText`)
		return err == nil && strings.Contains(page, text)
	}, time.Minute, 20*time.Millisecond, "%q is not in the page:\n%s", text, &page)
}

func (d *device) forget() {
	d.t.Helper()
	_, err := chromedp.Call(d.ctx, network.ClearBrowserCookies, cdp.Empty{})
	require.NoError(d.t, err)
}

func (d *device) keys() []*webauthn.Credential {
	d.t.Helper()
	got, err := chromedp.Call(d.ctx, webauthn.GetCredentials, webauthn.GetCredentialsParams{AuthenticatorID: d.key})
	require.NoError(d.t, err)
	return got.Credentials
}

// TestPasskeysSignIn goes through an invitation, a sign-in, a second device and attacks with a real browser.
func TestPasskeysSignIn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.device()
	d.visit("/login/join?code=" + s.invite("ann", "approver:web"))
	d.press()
	d.shows(`"name":"ann"`)
	d.forget()
	d.visit("/login")
	d.press()
	d.shows(`"name":"ann"`)
	require.Equal(t, 401, s.user().login("ann", "", "").StatusCode, "she has no password")

	account := s.account("ann")
	require.Len(t, account.SignIns, 2)
	keys := account.Passkeys
	require.Len(t, keys, 1)
	require.NotNil(t, keys[0].UsedAt)
	require.NotContains(t, string(keys[0].Credential), base64.RawURLEncoding.EncodeToString(d.keys()[0].PrivateKey))

	t.Run("a challenge is good once, for the cookie of its browser", func(t *testing.T) {
		const attempt = `(async () => {
			const post = (path, fields) => fetch(path, {method: "POST", body: new URLSearchParams(fields)});
			const {publicKey} = await (await post("/login/passkey/begin", {for: "old"})).json();
			const credential = JSON.stringify(await navigator.credentials.get({publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(publicKey)}));
			%s
			return [(await post("/login/passkey/finish", {credential})).status, (await post("/login/passkey/finish", {credential})).status];
		})()`
		d.visit("/")
		statuses, err := webtest.Evaluate[[]int](d.ctx, fmt.Sprintf(attempt, ""), chromedp.EvalAwaitPromise)
		require.NoError(t, err)
		require.Equal(t, []int{200, 401}, statuses)
		statuses, err = webtest.Evaluate[[]int](d.ctx,
			fmt.Sprintf(attempt, `await post("/login/passkey/begin", {for: "old"}); // a later one`), chromedp.EvalAwaitPromise)
		require.NoError(t, err)
		require.Equal(t, []int{401, 401}, statuses)
	})
	t.Run("a second device", func(t *testing.T) {
		u := s.member("bob", "viewer")
		page := u.send("POST", "/account/device", "", "Host: "+strings.Replace(s.address, "127.0.0.1", "localhost", 1),
			"Cookie: "+cookieOf(t, u), "Accept: text/html", "Content-Type: application/x-www-form-urlencoded")
		require.Equal(t, 200, page.StatusCode, page.text)
		_, rest, _ := strings.Cut(page.text, "/login/join?code=")
		code := rest[:43]
		require.Equal(t, 422, s.user().join(code, newPassword).StatusCode, "it chooses no password")
		second := s.device()
		second.visit("/login/join?code=" + code)
		second.press()
		second.shows(`"name":"bob"`)
		second.forget()
		second.visit("/login")
		second.press()
		second.shows(`"name":"bob"`)
		require.Equal(t, 401, s.user().get("/login/join?code="+code).StatusCode)
	})
	t.Run("signed in by the password", func(t *testing.T) {
		third := s.device()
		third.visit("/login")
		next, err := webtest.Evaluate[string](third.ctx, `(async () => {
			const post = (path, fields) => fetch(path, {method: "POST", body: new URLSearchParams(fields)});
			const begin = async () => (await post("/login/passkey/begin", {for: "new"})).json();
			if ((await begin()).status !== 401) return "somebody who is not signed in gets a passkey";
			await post("/login", {name: "bob", password: "`+goodPassword+`"});
			const {publicKey} = await begin();
			const credential = JSON.stringify(await navigator.credentials.create({publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(publicKey)}));
			return (await (await post("/login/passkey/finish", {credential})).json()).next;
		})()`, chromedp.EvalAwaitPromise)
		require.NoError(t, err)
		require.Equal(t, "/account", next)
		require.Equal(t, "bob", eventsOf(t, s.audit, access.EventFilter{Action: "passkey.add"})[0].Who())
		require.Len(t, s.account("bob").Passkeys, 2)
	})
	t.Run("a copy of a key", func(t *testing.T) {
		copied := d.keys()[0]
		_, err := chromedp.Call(d.ctx, webauthn.ClearCredentials, webauthn.ClearCredentialsParams{AuthenticatorID: d.key})
		require.NoError(t, err)
		// The type of the protocol always sends a property that this authenticator does not know.
		_, err = chromedp.Call(d.ctx, cdp.Command[map[string]any, cdp.Empty]{Method: webauthn.CommandAddCredential}, map[string]any{
			"authenticatorId": d.key, "credential": map[string]any{
				"credentialId": copied.CredentialID, "isResidentCredential": true, "rpId": copied.RpID, "privateKey": copied.PrivateKey,
				"userHandle": copied.UserHandle, "signCount": 1,
			},
		})
		require.NoError(t, err)
		d.forget()
		d.visit("/login")
		d.press()
		d.shows("the passkey is not known here")
	})
	t.Run("a recovery ends passkeys", func(t *testing.T) {
		link := s.recovery("ann")
		require.Equal(t, 303, s.user().join(s.code(link), newPassword).StatusCode)
		require.Empty(t, s.account("ann").Passkeys)
	})
	t.Run("at an address", func(t *testing.T) {
		require.NoError(t, chromedp.Do(d.ctx, chromedp.Navigate(s.url+"/login")))
		d.shows("Here a password is the way")
		require.Equal(t, 409, s.user().send("POST", "/login/passkey/begin", "for=old",
			"Content-Type: application/x-www-form-urlencoded").StatusCode)
	})
	require.NotEmpty(t, eventsOf(t, s.audit, access.EventFilter{Action: "person.join"}))
}
