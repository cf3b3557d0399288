//go:build system

package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

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

func TestComponentsFit(t *testing.T) {
	t.Parallel()
	text := componentsPage(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /assets/{file}", serveAsset)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		protect(w.Header())
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(text)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	newScreen(t).fits("components", server.URL)
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
	"checkpoints": "/sessions/web-7/checkpoints",
	"assignment":  "/sessions/web-7/phases/backend/developer",
	"attempt":     "/sessions/web-7/phases/backend/developer/attempts/1.1?q=store",
	"running":     "/sessions/web-7/phases/backend/database-expert/attempts/1.1",
}

// TestPagesFit looks at every page as a person does.
func TestPagesFit(t *testing.T) {
	t.Parallel()
	server := dashboard(t, newPlane(t))
	s := newScreen(t)
	for name, path := range pagePaths {
		t.Run(name, func(t *testing.T) { screen{t, s.ctx}.fits(name, server.URL+path) })
	}
}

// TestADeliveryFits: the form below a result, and the preview that it leads to.
func TestADeliveryFits(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.solo()
	server := dashboard(t, p)
	s := newScreen(t)
	for name, path := range map[string]string{
		"deliver": "/sessions/solo-1#deliver", "delivery": "/sessions/solo-1/resume?to=github&repository=acme/shop&merge=ask",
	} {
		s.fits(name, server.URL+path)
		for _, dark := range []bool{false, true} {
			s.look(390, dark)
			s.visit(server.URL + path)
			eval[bool](s, `document.querySelectorAll("details").forEach(d => d.open = true); true`)
			s.accessible(name)
			s.keep(fmt.Sprintf("%s-open-390-%t.png", name, dark))
		}
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

// TestPagesAreAccessible holds every page against the rules of accessibility, light and dark.
func TestPagesAreAccessible(t *testing.T) {
	t.Parallel()
	server := dashboard(t, newPlane(t))
	s := newScreen(t)
	for name, path := range pagePaths {
		t.Run(name, func(t *testing.T) {
			s := screen{t, s.ctx}
			for _, dark := range []bool{false, true} {
				s.look(1024, dark)
				require.NoError(t, chromedp.Do(s.ctx, chromedp.Navigate(server.URL+path)))
				s.accessible(name)
			}
		})
	}
}
