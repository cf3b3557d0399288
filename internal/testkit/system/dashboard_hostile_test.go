//go:build system

package system

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
	"github.com/maestro-hive/maestro/internal/testkit/webtest"
)

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
