//go:build system

package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// screen is a Chromium that one test looks at pages with.
type screen struct {
	t   *testing.T
	ctx context.Context
}

func newScreen(t *testing.T) screen {
	t.Helper()
	program, err := exec.LookPath("chromium")
	require.NoError(t, err, "install Debian's package chromium")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1440, 900),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"), chromedp.Flag("no-proxy-server", true))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's sandbox is not for root
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, _ = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Log("Chromium has not ended well:", err)
		}
	})
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate("about:blank")))
	return screen{t, ctx}
}

// look sets the width of the window and the colours.
func (s screen) look(width int64, dark bool) {
	s.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	_, err := chromedp.Call(s.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1})
	require.NoError(s.t, err)
	_, err = chromedp.Call(s.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
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
			wide, err := chromedp.Run(s.ctx, chromedp.Evaluate[[]string](`[...document.querySelectorAll("body *")].filter(e => document.documentElement.scrollWidth > innerWidth && e.getBoundingClientRect().right > innerWidth + 1 && !e.closest("svg *, .scroll, .body-scroll")).slice(0, 5).map(e => e.outerHTML.slice(0, 120))`))
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
	files := loadAssets()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/assets/") {
			files.ServeHTTP(w, r)
			return
		}
		protect(w.Header())
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(text)
	}))
	t.Cleanup(server.Close)
	newScreen(t).fits("components", server.URL)
}

// TestPagesFit looks at every page as a person does.
func TestPagesFit(t *testing.T) {
	t.Parallel()
	server := dashboard(t, samplePlane())
	s := newScreen(t)
	for name, path := range map[string]string{
		"inbox": "/inbox", "sessions": "/sessions", "session": "/sessions/web-7", "absent": "/sessions/absent",
	} {
		s.fits(name, server.URL+path)
	}
}
