//go:build system

package system

import (
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/testkit/clitest"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
	"github.com/maestro-hive/maestro/internal/testkit/webtest"
)

// installedProvider installs the provider of sign-ins, and returns its directory.
var installedProvider = sync.OnceValues(func() (string, error) {
	bin, err := clitest.Install("testdata/oidc", "../oidc-provider")
	return filepath.Join(bin, "../.."), err
})

// TestSignInByAProvider has people sign in at a real provider with a real browser, which comes
// back from another site: one has a role, and signs out; one has none.
func TestSignInByAProvider(t *testing.T) {
	t.Parallel()
	dir, err := installedProvider()
	require.NoError(t, err)
	w := emptyWorld(t)
	w.address, w.namespace = "127.0.0.1:1", "default"
	_, err = store.Create(w.state, store.Options{Clock: time.Now})
	require.NoError(t, err)
	at, port := "http://127.0.0.1:"+proctest.FreePort(t), proctest.FreePort(t)
	issuer := "http://localhost:" + port
	node, err := exec.LookPath("node")
	require.NoError(t, err, "install Debian's packages nodejs and npm")
	provider := w.start(node, filepath.Join(dir, "provider.mjs"), port, at+"/login/callback")
	w.eventually("the provider answers", func() bool { return strings.Contains(provider.output.String(), "ready") })
	w.variables = append(w.variables, "MAESTRO_OIDC_SECRET=a-secret-of-the-test")
	server := w.start(filepath.Join(programs, "maestro"), "serve", "--listen", strings.TrimPrefix(at, "http://"),
		"--oidc-issuer", issuer, "--oidc-client-id", "maestro", "--oidc-scope", "groups", "--oidc-group", "leads=approver",
		"--oidc-group", "web=operator:web")
	w.eventually("the server runs", func() bool { return strings.Contains(server.output.String(), "sign in") })

	b := newBrowser(t)
	signIn := func(login string) {
		b.visit(at + "/")
		b.click("a.button", "Sign in")
		b.enter("input[name=login]", login)
		b.enter("input[name=password]", "any")
		b.click("button[type=submit]", "Sign-in")
		b.click("button[type=submit]", "Continue")
	}
	signIn("ann.leads.web")
	b.until("the person is signed in", func() (bool, error) {
		page, err := webtest.Evaluate[string](b.ctx, "location.href + ' ' + document.title")
		return strings.HasPrefix(page, at+"/") && !strings.Contains(page, "Sign in") && !strings.Contains(page, "callback"), err
	})
	b.click("footer button", "Sign out")
	b.reads("main", "With a one-time link")
	b.visit(at + "/sessions")
	b.reads("main", "not signed in")
	log := w.must("audit", "--actor", "ann.leads.web@example.org")
	require.Regexp(t, `oidc +127\.0\.0\.1 +login +- +done`, log)

	b = newBrowser(t)
	signIn("bob.guests")
	b.reads("main", "bob.guests@example.org is in no group that has a role here")
	require.Contains(t, w.must("audit", "--action", "login"), "denied")
}
