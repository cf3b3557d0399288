//go:build system

package system

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
	"github.com/maestro-hive/maestro/internal/testkit/clitest"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
	"github.com/maestro-hive/maestro/internal/testkit/webtest"
)

// dashboard is a server, a worker and `maestro serve`, all of which a test may kill.
type dashboard struct {
	*world
	at     string
	server *process
}

func newDashboard(t *testing.T, agents string) *dashboard {
	t.Helper()
	w := newWorldAlone(t)
	w.write("agents.yaml", agents)
	w.startWorker()
	d := &dashboard{world: w, at: "127.0.0.1:" + proctest.FreePort(t)}
	d.serve()
	return d
}

// serve starts `maestro serve`, or starts it again.
func (d *dashboard) serve() {
	d.t.Helper()
	d.server = d.start(filepath.Join(programs, "maestro"), "serve", "--listen", d.at)
	d.eventually("the dashboard is served", func() bool { return strings.Contains(d.server.output.String(), "sign in") })
}

// signIn opens a browser that is signed in.
func (d *dashboard) signIn() *browser {
	d.t.Helper()
	b := newBrowser(d.t)
	b.visit(strings.TrimSpace(d.must("serve", "--link")))
	b.click("main button", "") // "Sign in as" whoever made the link
	b.reads("main h1", "Inbox")
	return b
}

// builders is a team of one who needs help once, and whose work is approved.
const builders = `version: 1
name: builders
personas: {builder: {role: Builder, agent: coder, instructions: Build a web server.}}
phases: [{name: build, personas: [builder], produces: [work.txt], approve: true}]
retry: {attempts: 2, initial: 1s, rounds: 1}
help: {mode: ask}
`

// TestTheDashboardOutlivesItsServers has a browser follow a session over kills of all servers.
func TestTheDashboardOutlivesItsServers(t *testing.T) {
	t.Parallel()
	d := newDashboard(t, stuckAgent)
	d.must("run", d.write("team.yaml", builders), "A web server", "--session", "web-1")
	b := d.signIn()
	b.reads(":is(article.request, .request-row)", "build/builder needs help")
	b.click(":is(article.request, .request-row) a", "web-1")
	b.reads("main h1", "web-1")

	d.server.kill()
	b.reads("#live", "No connection")
	d.world.server.kill()
	d.startServer()
	d.serve()
	d.eventually("Temporal is reached again", func() bool {
		a := d.maestro("resolve", "web-1", "retry", "--note", "use port 9090 instead")
		return a.code == 0 || strings.Contains(a.stderr, "is not open") // whose first answer was lost
	})
	b.reads("main", "build needs approval") // the page has found the new server by itself
	d.must("approve", "web-1", "build")
	d.completes("web-1")
	b.reads("main", "Completed")
}

// hostileAgent writes markup, control characters and marks of direction wherever an agent can write,
// and nine megabytes of them to its output. It fails until a person has told it how.
const hostileAgent = `version: 1
agents:
  coder:
    kind: command
    argv:
      - /bin/bash
      - -c
      - |
        evil=$'<script>window.taken=1</script><img src=x onerror="window.taken=1">[click](javascript:window.taken=1) \e[31m\u202egnp.exe\u0007'
        cat > brief.json
        yes "$evil" | head -c 9000000
        echo "the Needle"
        if ! grep -q 'carry on' brief.json; then
          echo "failed: $evil" >&2
          exit 1
        fi
        rm brief.json
        mkdir -p '<img src=x onerror=window.taken=1>'
        echo "$evil" > '<img src=x onerror=window.taken=1>/page.html'
        echo "$evil" > 'work.md'
        python3 - "$evil" > $MAESTRO_RESULT <<'END'
        import json, sys
        e = sys.argv[1]
        print(json.dumps({"summary": e, "decisions": {"d": e}, "usage": {"output_tokens": 5}}))
        END
`

// TestAHostileAgentInTheDashboard has a person follow a session of a hostile agent through all pages,
// in a store with 500 sessions.
func TestAHostileAgentInTheDashboard(t *testing.T) {
	t.Parallel()
	d := newDashboard(t, hostileAgent)
	d.fill(500)
	team := strings.Replace(strings.Replace(builders, "attempts: 2", "attempts: 1", 1), "work.txt", "work.md", 1)
	d.must("run", d.write("team.yaml", team), "A <script>window.taken=1</script> server", "--session", "web-1")
	b := d.signIn()
	b.reads(":is(article.request, .request-row)", "build/builder needs help")
	b.reads(":is(article.request, .request-row)", "<script>window.taken=1</script>")
	d.harmless(b, "/inbox", "/sessions/web-1", "/sessions/web-1/phases/build", "/sessions/web-1/phases/build/builder")
	b.visit("http://" + d.at + "/inbox")
	b.enter(":is(article.request, .request-row) textarea", "carry on")
	b.click(":is(article.request, .request-row) button", "Retry")
	b.reads(":is(article.request, .request-row)", "build needs approval")
	d.harmless(b, "/inbox", "/sessions/web-1", "/sessions/web-1/phases/build",
		"/sessions/web-1/phases/build/builder", "/sessions/web-1/checkpoints", "/history", "/operate", "/audit",
		"/sessions/web-1/edit?phase=build&path=work.md")

	d.must("approve", "web-1", "build")
	d.completes("web-1")
	d.harmless(b, "/sessions/web-1/phases/build/builder")
	attempts, err := webtest.Evaluate[[]string](b.ctx,
		`[...new Set([...document.querySelectorAll('main a[href*="/attempts/"]')].map(a => new URL(a.href).pathname))]`)
	b.check(err, "find the attempts")
	require.Len(t, attempts, 2)
	attempt := d.harmless(b, attempts[0], attempts[1], attempts[1]+"?q=needle")
	require.Contains(t, attempt, "the Needle")

	b.visit("http://" + d.at + "/sessions")
	b.reads("main", "web-1")
	b.click("main a", "Older sessions")
	b.until("the next page is shown", func() (bool, error) { return !strings.Contains(b.shown("main"), "web-1"), nil })
	d.harmless(b, "/sessions?text=s499", "/sessions?status=completed&team=builders")
}

// fill has a number of sessions in the store.
func (d *dashboard) fill(n int) {
	d.t.Helper()
	st, crew, started := d.open(), spec.Team{Name: "many", Phases: []spec.Phase{{Name: "design", Personas: []string{"ann"}}}},
		time.Now().Add(-time.Hour)
	for i := range n {
		id := fmt.Sprintf("s%d", i)
		statetest.Put(d.t, st.State, session.Key{Namespace: d.namespace, Session: id}, func(e *session.Execution) {
			e.Status = session.NewStatus(id, crew)
			e.Status.Status = session.Completed
			e.StartedAt, e.Run = &started, 1
		})
	}
}

// harmless visits pages. Nothing of what an agent wrote has run, hides what is there, or makes a page
// wider than a window. It returns what the last page shows.
func (d *dashboard) harmless(b *browser, pages ...string) (shown string) {
	d.t.Helper()
	for _, page := range pages {
		b.visit("http://" + d.at + page)
		status, err := webtest.Evaluate[int](b.ctx, `performance.getEntriesByType("navigation")[0].responseStatus`)
		b.check(err, page)
		require.Equal(d.t, http.StatusOK, status, page)
		taken, err := webtest.Evaluate[bool](b.ctx,
			`window.taken !== undefined || document.querySelector("main script, main img[src=x], main a[href^='javascript']") !== null`)
		b.check(err, page)
		require.False(d.t, taken, page)
		wide, err := webtest.Evaluate[bool](b.ctx, `document.documentElement.scrollWidth > innerWidth`)
		b.check(err, page)
		require.False(d.t, wide, "%s is wider than the window", page)
		shown = b.shown("main")
		require.False(d.t, strings.ContainsAny(shown, "\x1b\x07\u202e"), page)
	}
	return shown
}

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
