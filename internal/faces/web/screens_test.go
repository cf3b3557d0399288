//go:build system

package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
	"github.com/maestro-hive/maestro/internal/testkit/webtest"
)

// screen is a Chromium that one test looks at pages with.
type screen struct {
	t   *testing.T
	ctx context.Context
}

func newScreen(t *testing.T) screen {
	t.Helper()
	return screen{t, webtest.Start(t, 1440, 900)}
}

// look sets the width of the window and the colours.
func (s screen) look(width int64, dark bool) {
	s.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	_, err := chromedp.Call(s.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width:  width,
		Height: 900, DeviceScaleFactor: 1,
	})
	require.NoError(s.t, err)
	_, err = chromedp.Call(s.ctx, emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	require.NoError(s.t, err)
}

// fits visits a page at three widths, light and dark, and fails where the page is wider than the
// window. With MAESTRO_SCREENS it keeps a picture of each.
func (s screen) fits(name, url string) {
	s.t.Helper()
	for _, width := range []int64{375, 768, 1440} {
		for _, dark := range []bool{false, true} {
			s.look(width, dark)
			require.NoError(s.t, chromedp.Do(s.ctx, chromedp.Navigate(url)))
			wide, err := webtest.Evaluate[[]string](s.ctx,
				`[...document.querySelectorAll("body *")].filter(e => document.documentElement.scrollWidth > innerWidth && e.getBoundingClientRect().right > innerWidth + 1 && !e.closest("svg *, .scroll, .body-scroll")).slice(0, 5).map(e => e.outerHTML.slice(0, 120))`)
			require.NoError(s.t, err)
			require.Empty(s.t, wide, "%s is wider than %d pixels", name, width)
			s.keep(fmt.Sprintf("%s-%d-%s.png", name, width, map[bool]string{false: "light", true: "dark"}[dark]))
		}
	}
}

func (s screen) keep(file string) {
	dir := os.Getenv("MAESTRO_SCREENS")
	if dir == "" {
		return
	}
	beyond := true
	picture, err := chromedp.Call(s.ctx, cdppage.CaptureScreenshot, cdppage.CaptureScreenshotParams{CaptureBeyondViewport: &beyond})
	require.NoError(s.t, err)
	require.NoError(s.t, os.WriteFile(filepath.Join(dir, file), picture.Data, 0o600))
}

// violation is a rule of accessibility that a page breaks.
type violation struct {
	ID     string   `json:"id"`
	Impact string   `json:"impact"`
	Nodes  []string `json:"nodes"`
}

// accessible holds the page that is open against axe's rules.
func (s screen) accessible(name string) {
	s.t.Helper()
	axe, err := os.ReadFile("testdata/axe/node_modules/axe-core/axe.min.js")
	require.NoError(s.t, err, "run npm ci in internal/faces/web/testdata/axe")
	_, err = webtest.Evaluate[bool](s.ctx, string(axe)+"; true")
	require.NoError(s.t, err)
	found, err := webtest.Evaluate[[]violation](s.ctx,
		`axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(v => ({id: v.id, impact: v.impact, nodes: v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + " " + (n.failureSummary ?? "").slice(0, 200))})))`,
		chromedp.EvalAwaitPromise)
	require.NoError(s.t, err)
	require.Empty(s.t, found, "%s is not accessible", name)
}

// pagePaths is a page of each kind.
var pagePaths = map[string]string{
	"inbox": "/inbox", "sessions": "/sessions", "session": "/sessions/web-7", "absent": "/sessions/absent",
	"phase": "/sessions/web-7/phases/frontend", "early": "/sessions/web-7/phases/documentation",
	"changes": "/sessions/web-7/changes", "history": "/history", "operate": "/operate", "audit": "/audit", "account": "/account",
	"start": "/start?team=web", "choose": "/start?choose", "register": "/register-team", "teams": "/teams", "team": "/teams/web",
	"checkpoints": "/sessions/web-7/checkpoints", "deliver": "/sessions/solo-1#deliver",
	"delivery":   "/sessions/solo-1/resume?to=github&repository=acme/shop&merge=ask",
	"assignment": "/sessions/web-7/phases/backend/developer",
	"attempt":    "/sessions/web-7/phases/backend/developer/attempts/1.1?q=store",
	"running":    "/sessions/web-7/phases/backend/database-expert/attempts/1.1",
}

// TestPagesFit looks at every page as a person does, and holds it against the rules of accessibility, on a phone with all that
// is folded.
func TestPagesFit(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.solo()
	server := dashboard(t, p)
	all := newScreen(t)
	for name, path := range pagePaths {
		t.Run(name, func(t *testing.T) {
			s := screen{t, all.ctx}
			s.fits(name, server.URL+path)
			for _, width := range []int64{1024, 390} {
				for _, dark := range []bool{false, true} {
					s.look(width, dark)
					s.visit(server.URL + path)
					eval[bool](s, fmt.Sprintf(`document.querySelectorAll("details").forEach(d => d.open ||= %t); true`, width == 390))
					s.accessible(name)
					s.keep(fmt.Sprintf("%s-open-%d-%t.png", name, width, dark))
				}
			}
		})
	}
}

// Fifty requests are on four screens, and on a phone on eight.
func TestManyRequestsFitOnFourScreens(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	fiftyApprovals(p)
	_, err := statetest.SQLite(t, p.Store.Dir()).ExecContext(t.Context(), `delete from alerts`)
	require.NoError(t, err)
	server := dashboard(t, p)
	s := newScreen(t)
	for width, screens := range map[int64]int{1440: 4, 390: 8} {
		s.look(width, false)
		s.visit(server.URL + "/inbox")
		require.Less(t, eval[int](s, `document.documentElement.scrollHeight`), screens*900, "at %d pixels", width)
		s.keep(fmt.Sprintf("fifty-%d.png", width))
	}
	s.accessible("fifty requests")
}

// In a narrow window the answer is below the differences, and a link to it stays on the screen.
func TestTheAnswerIsBelowTheDifferences(t *testing.T) {
	t.Parallel()
	server := dashboard(t, newPlane(t))
	s := newScreen(t)
	for width, below := range map[int64]bool{390: true, 768: true, 1440: false} {
		s.look(width, false)
		s.visit(server.URL + "/sessions/web-7/phases/frontend")
		const place = `(() => { document.getElementById("changes").scrollIntoView(); const at = (s, i) => [...document.querySelectorAll(s)].at(i).getBoundingClientRect();
			return [at(".request", 0).top > at(".file", -1).bottom, at(".to-answer", 0).height > 0 && at(".to-answer", 0).bottom < innerHeight]; })()`
		require.Equal(t, []bool{below, below}, eval[[]bool](s, place), "at %d pixels", width)
		require.Empty(t, eval[[]string](s, `[...document.querySelectorAll("summary")].filter(e => e.offsetHeight && e.offsetHeight < 24).map(e => e.textContent)`))
	}
}

// liveDashboard is a dashboard whose events a test sends.
func liveDashboard(t *testing.T, p *plane) (url string, changed func()) {
	t.Helper()
	pages := p.pages()
	signal := make(chan struct{}, 16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/events" {
			pages.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case <-r.Context().Done():
				return
			case <-signal:
				fmt.Fprint(w, "event: change\ndata: {}\n\n")
				_ = http.NewResponseController(w).Flush()
			}
		}
	}))
	t.Cleanup(server.CloseClientConnections)
	return server.URL, func() { signal <- struct{}{} }
}

// eval runs a script on the page.
func eval[T any](s screen, script string) T {
	s.t.Helper()
	value, err := webtest.Evaluate[T](s.ctx, script)
	require.NoError(s.t, err, script)
	return value
}

// until waits until a script says true.
func (s screen) until(what, script string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return eval[bool](s, script) }, time.Minute, 50*time.Millisecond, what)
}

func (s screen) visit(url string) {
	s.t.Helper()
	require.NoError(s.t, chromedp.Do(s.ctx, chromedp.Navigate(url)))
}

const card = `[...document.querySelectorAll(".request, .request-row")].find(e => e.textContent.includes("%s"))`

// TestAPageChangesUnderAPersonsHands has a person write a note while another request is answered
// by somebody else: the page follows, and what is written, opened and focused stays.
func TestAPageChangesUnderAPersonsHands(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	url, changed := liveDashboard(t, p)
	s := newScreen(t)
	s.visit(url + "/inbox")
	s.until("events arrive", `document.getElementById("live").dataset.state === "on"`)
	mine := fmt.Sprintf(card, "needs approval")
	eval[bool](s, `(() => { window.node = `+mine+
		`; const d = [...document.querySelectorAll("details")][0]; d.open = true; window.opened = d; const a = node.querySelector("textarea"); a.focus(); return true; })()`)
	require.NoError(t, chromedp.Do(s.ctx, chromedp.KeyEvent("half a thought")))
	p.put(session.Status{Session: "web-6", Team: "web-service", Status: session.Running})
	changed()
	s.until("the other card is gone", `!document.body.textContent.includes("needs a larger budget")`)
	require.True(t, eval[bool](s, `window.node.isConnected && node.querySelector("textarea").value === "half a thought" && document.activeElement === node.querySelector("textarea")`))
	require.True(t, eval[bool](s, `window.opened.isConnected && opened.open`))
	require.Equal(t, "(2) Inbox · Maestro", eval[string](s, `document.title`))
	require.Contains(t, eval[string](s, `document.getElementById("tabs").textContent`), "2")
}

// A comment on a line becomes a part of the note with which the work is rejected.
func TestCommentsOnLinesAreTheNote(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	url, _ := liveDashboard(t, p)
	s := newScreen(t)
	s.visit(url + "/sessions/web-7/phases/frontend")
	const below = `(() => { const row = document.querySelector('.diff .code.add').parentElement; row.querySelector('.code').click(); return row.nextElementSibling.matches('.comment-row'); })()`
	require.True(t, eval[bool](s, below), "the form is below the line")
	const comment = `(() => { const f = document.querySelector(".comment-row form"); f.elements.text.value = "why another port?"; f.requestSubmit(); return true; })()`
	eval[bool](s, comment)
	const note = "server.go:5 `// main serves until it is stopped.`: why another port?"
	require.Equal(t, note, eval[string](s, `document.querySelector("textarea[name=note]").value`))
	s.visit(url + "/sessions/web-7")
	require.Equal(t, note, eval[string](s, `document.querySelector("textarea[name=note]").value`),
		"another page of the session has it, too")
	eval[bool](s, `document.querySelector("button[value=reject]").click() ?? true`)
	s.until("it is rejected", `document.getElementById("toasts").textContent.includes("does the phase again")`)
	require.Equal(t, []session.Answer{{Request: "r-1", Action: session.AnswerReject, Note: note, By: "alice"}}, p.answers())
}

// TestAnAnswerThatIsLostIsNoSecondRaise has a connection end after the server got a raise.
func TestAnAnswerThatIsLostIsNoSecondRaise(t *testing.T) {
	t.Parallel()
	pages := newPlane(t).pages()
	keys := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			pages.ServeHTTP(w, r)
			return
		}
		keys <- r.PostFormValue("once")
		if len(keys) == 1 {
			fmt.Fprint(w, "the beginning of an answer")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		pages.ServeHTTP(w, r)
	}))
	t.Cleanup(server.CloseClientConnections)
	s := newScreen(t)
	s.visit(server.URL + "/inbox")
	const raise = `(() => { const f = document.querySelector("form[action$='/raise']"); f.querySelector("[name=usd]").value = "5"; f.requestSubmit(); return true; })()`
	eval[bool](s, raise)
	s.until("the page says what is known",
		`document.querySelector("form[action$='/raise'] [role=alert]")?.textContent.includes("may have been done") ?? false`)
	eval[bool](s, raise)
	s.until("it is done", `document.getElementById("toasts").textContent.includes("is raised")`)
	first := <-keys
	require.Len(t, first, 32)
	require.Equal(t, first, <-keys)
}

// TestALongConversationIsUsable opens an attempt with ten megabytes of output.
func TestALongConversationIsUsable(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	statetest.PutRounds(t, p.Store.State, state.Assignment{Key: p.key("web-7"), AssignmentID: designer}, session.RoundRecord{
		Round: 2, RoundLog: session.RoundLog{Attempts: []session.AttemptReport{{
			Attempt: 1, StartedAt: ago(time.Hour), EndedAt: testNow,
			Log: p.blob(strings.Repeat("> run make\n< run make\n  │ "+strings.Repeat("x", 170)+"\n", 54_000) + "the Needle\n"),
		}}},
	})
	url, _ := liveDashboard(t, p)
	s := newScreen(t)
	s.visit(url + "/sessions/web-7/phases/frontend/designer/attempts/2.1")
	require.True(t, eval[bool](s, `document.body.textContent.includes("the Needle") && document.querySelectorAll(".talk > *").length < 3000`))
	s.visit(url + "/sessions/web-7/phases/frontend/designer/attempts/2.1?q=needle")
	require.Equal(t, 1, eval[int](s, `document.querySelectorAll(".matches li").length`))
	eval[bool](s, `document.querySelector(".matches a").click() ?? true`)
	s.until("the line is shown", `document.getElementById("hit")?.textContent.includes("the Needle") ?? false`)
}
