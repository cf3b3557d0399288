//go:build system

package system

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// dashboard is a server, a worker and `maestro serve`, all of which a test may kill.
type dashboard struct {
	*world
	at     string
	server *process
	// flags are those of `maestro serve` besides its address.
	flags []string
}

func newDashboard(t *testing.T, agents string, flags ...string) *dashboard {
	t.Helper()
	w := newWorldAlone(t)
	w.write("agents.yaml", agents)
	w.startWorker()
	d := &dashboard{world: w, at: "127.0.0.1:" + proctest.FreePort(t), flags: flags}
	d.serve()
	return d
}

// serve starts `maestro serve`, or starts it again.
func (d *dashboard) serve() {
	d.t.Helper()
	d.server = d.start(filepath.Join(programs, "maestro"), append([]string{"serve", "--listen", d.at}, d.flags...)...)
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

// call calls the API with a token.
func (d *dashboard) call(token, method, path, body string) (status int, answer string) {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), method, "http://"+d.at+"/api/v1"+path, bytes.NewBufferString(body))
	require.NoError(d.t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	got, err := http.DefaultClient.Do(r)
	require.NoError(d.t, err)
	defer got.Body.Close()
	data, err := io.ReadAll(got.Body)
	require.NoError(d.t, err)
	return got.StatusCode, string(data)
}

// token creates a token of a role.
func (d *dashboard) token(role string) string {
	d.t.Helper()
	for _, word := range strings.Fields(d.must("token", "create", "of-"+role, "--role", role)) {
		if strings.HasPrefix(word, "maestro_") {
			return word
		}
	}
	require.Fail(d.t, "no token was printed")
	return ""
}

// builders is a team of one who needs help once, and whose work is approved.
const builders = `version: 1
name: builders
personas: {builder: {role: Builder, agent: coder, instructions: Build a web server.}}
phases: [{name: build, personas: [builder], produces: [work.txt], approve: true}]
retry: {attempts: 2, initial: 1s, rounds: 1}
help: {mode: ask}
`

// TestASessionIsAnsweredInTheDashboard has a person who has nothing but a browser find a
// session that waits for help, say what to do, read the changes, and approve them.
func TestASessionIsAnsweredInTheDashboard(t *testing.T) {
	t.Parallel()
	d := newDashboard(t, stuckAgent)
	d.must("run", d.write("team.yaml", builders), "A <b>web</b> server", "--session", "web-1")
	b := d.signIn()
	b.reads(":is(article.request, .request-row)", "build/builder needs help")
	b.reads(":is(article.request, .request-row)", `cannot *listen* on <port> 8080: "in use" --by another`)
	b.enter(":is(article.request, .request-row) textarea", "use port 9090 instead")
	b.click(":is(article.request, .request-row) button", "Retry")
	b.reads(":is(article.request, .request-row)", "build needs approval") // without loading the page again

	other := d.signIn()
	other.click(":is(article.request, .request-row) a", "Review the changes")
	other.reads("main", "work.txt")
	other.reads("main", "use port 9090 instead")

	b.click(":is(article.request, .request-row) a", "Review the changes")
	b.enter(":is(article.request, .request-row) textarea", "Agreed.")
	b.click(":is(article.request, .request-row) button", "Approve")
	d.completes("web-1")
	other.until("the request is gone from the other browser",
		func() (bool, error) { return other.shown(":is(article.request, .request-row)") == "", nil })
	b.visit("http://" + d.at + "/sessions/web-1")
	b.reads("main", "Completed")
	log := d.must("audit", "--session", "web-1")
	require.Regexp(t, `link .*request\.approve .* done`, log)
	require.Regexp(t, `cli .*session\.start .* done`, log)
	require.Regexp(t, `link .*request\.retry .* done`, log)
}

// TestTheDashboardOutlivesItsServers has a browser follow a session over kills of all servers, and two
// programs answer its request at once.
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
	operator, approver := d.token("operator"), d.token("approver")
	d.eventually("Temporal is reached again", func() bool {
		status, _ := d.call(operator, http.MethodGet, "/sessions/web-1/requests", "")
		return status == http.StatusOK
	})
	_, open := d.call(operator, http.MethodGet, "/requests", "")
	require.Contains(t, open, `"id":"build.builder.1"`)
	status, answer := d.call(approver, http.MethodPost, "/sessions/web-1/requests/build.builder.1/answer", `{"action":"retry"}`)
	require.Equal(t, http.StatusForbidden, status, answer)

	statuses := make([]int, 2)
	var both sync.WaitGroup
	for i := range statuses {
		both.Go(func() {
			statuses[i], _ = d.call(operator, http.MethodPost, "/sessions/web-1/requests/build.builder.1/answer",
				fmt.Sprintf(`{"action":"retry","note":"use port 9090 instead, says %d"}`, i))
		})
	}
	both.Wait()
	require.ElementsMatch(t, []int{http.StatusOK, http.StatusConflict}, statuses, "the second of two answers is a conflict")
	b.reads("main", "build needs approval") // the page has found the new server by itself
	status, answer = d.call(approver, http.MethodPost, "/sessions/web-1/requests/build.approval.1/answer", `{"action":"approve"}`)
	require.Equal(t, http.StatusOK, status, answer)
	d.completes("web-1")
	b.reads("main", "Completed")
}
