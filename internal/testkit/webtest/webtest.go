// Package webtest starts a real Chromium for tests of what people see in a browser.
package webtest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// limit is the time that a test may use its Chromium; it ends with the test in any case.
const limit = 10 * time.Minute

// Start starts a Chromium with a window of a size in pixels. It ends with the test, and
// reaches nothing but this machine. The context is for chromedp and [Evaluate].
func Start(t *testing.T, width, height int) context.Context {
	t.Helper()
	program, err := exec.LookPath("chromium")
	require.NoError(t, err, "install Debian's package chromium")
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(width, height),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"),
		chromedp.Flag("no-proxy-server", true))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's sandbox is not for root
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
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
	return ctx
}

// replaced is the code of Chromium's error for a page that another one takes the place of.
const replaced = -32000

// Evaluate runs a script in the page that the browser shows, and returns its value. While
// another page takes its place, for example after a click on a link, the value is lost: then
// Evaluate runs the script again, in the next page.
func Evaluate[T any](ctx context.Context, script string, options ...chromedp.EvaluateOption) (value T, err error) {
	waits, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		value, err = chromedp.Run(ctx, chromedp.Evaluate[T](script, options...))
		if refused, ok := errors.AsType[*cdproto.Error](err); !ok || refused.Code != replaced {
			return value, err
		}
		select {
		case <-ticker.C:
		case <-waits.Done():
			return value, err
		}
	}
}
