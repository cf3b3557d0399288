//go:build system

package system

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/testkit/webtest"
)

// stuckAgent does its work only once a person has told it how. What it complains of
// would be Markdown and HTML, if a page took it for that.
const stuckAgent = `version: 1
agents:
  coder:
    kind: command
    argv:
      - /bin/sh
      - -c
      - |
        cat > brief.json
        if grep -o 'use port 9090 [^"\\]*' brief.json > work.txt; then
          rm brief.json
          echo '{"summary": "listens on <port> 9090", "usage": {"output_tokens": 5}}' > $MAESTRO_RESULT
          exit 0
        fi
        echo '{"usage": {"output_tokens": 7}}' > $MAESTRO_RESULT
        echo 'cannot *listen* on <port> 8080: "in use" --by another' >&2
        exit 1
`

// TestResumeFromTheWebUIAlone has somebody who has nothing but Temporal's Web UI find
// a session that waits for help, read what to do, and do it; then approve what has
// come of it.
func TestResumeFromTheWebUIAlone(t *testing.T) {
	t.Parallel()
	w, ui := newDev(t, stuckAgent)
	teamFile := w.write("team.yaml", builders)
	w.must("run", teamFile, "A web server", "--session", "web-1")
	b := newBrowser(t)

	w.eventually("the session waits for a person", func() bool { return strings.Contains(w.must("inbox"), "web-1") })
	b.visit(ui)
	b.click("main button", "Add Filter")
	b.click("li", "MaestroStatus")
	b.enter("input[placeholder='Enter value...']", "help_needed")
	b.click("button", "Apply")
	b.reads("main", "1 Workflow Refresh")
	b.follows("main a", "web-1", "iframe[title=Summary]")
	b.reads("iframe[title=Summary]", "HELP NEEDED: build/builder waits for a person. See the tab User Metadata")
	b.click("[data-testid=user-metadata-tab]", "User Metadata")
	page := b.details("Help needed: build/builder")
	require.Contains(t, page, `cannot *listen* on <port> 8080: "in use" --by another`)
	require.Contains(t, page, "At the top right, More Actions, Send an Update. Its Name is resolve")
	require.Equal(t, 4, strings.Count(page, `exit status 1: cannot *listen* on <port> 8080: "in use" --by another`),
		"what failed, both attempts, and the row of the assignment: %s", page)
	require.Contains(t, page, "Cost so far: 14 tokens")
	require.Contains(t, page, "Without an answer the session fails at ")

	again := b.copied("Retry:")
	again = strings.Replace(again, `"note": ""`, `"note": "use port 9090 instead"`, 1)
	again = strings.Replace(again, `"by": ""`, `"by": "a stranger"`, 1)
	b.send("resolve", again)
	b.accepted()
	page = b.details("Approval needed: phase build")
	require.NotContains(t, page, "Help needed")
	require.Contains(t, page, "builder: listens on <port> 9090")
	require.Contains(t, page, "files: work.txt")

	b.send("resolve", again)
	b.refused(`request "build.builder.1" is not open; open requests: build.approval.1 (approve, reject)`)
	b.details("Approval needed: phase build")
	b.send("resolve", b.copied("Reject:"))
	b.refused("a rejection needs a note: the personas get this text")
	b.details("Approval needed: phase build")
	b.send("resolve", strings.Replace(b.copied("Approve:"), `"by": ""`, `"by": "a stranger"`, 1))
	b.accepted()
	page = b.details("Session web-1 of team builders: completed")
	require.NotContains(t, page, "needed")
	b.reads("[data-testid=execution-status]", "COMPLETED")

	s := w.completes("web-1")
	require.Equal(t, 3, s.Phases[0].Assignments[0].Attempts)
	out := filepath.Join(w.dir, "out")
	w.must("artifacts", "get", "web-1", "--out", out)
	work, err := os.ReadFile(filepath.Join(out, "work.txt"))
	require.NoError(t, err)
	require.Equal(t, "use port 9090 instead\n", string(work), "the note has reached the agent")
}

// browser is a Chromium that one test looks at Temporal's Web UI with. It does what
// a person does: it reads what the page shows, and clicks where something is.
type browser struct {
	t   *testing.T
	ctx context.Context
}

// newBrowser starts a Chromium that ends with the test and reaches nothing but this
// machine.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	return &browser{t, webtest.Start(t, 1366, 900)}
}

// check fails the test with a picture of what the browser shows.
func (b *browser) check(err error, what string) {
	b.t.Helper()
	if err == nil {
		return
	}
	picture, failed := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if failed != nil {
		require.FailNow(b.t, what, "%v; and there is no picture of it: %v", err, failed)
	}
	dir, failed := os.MkdirTemp("", "maestro-web-ui-")
	require.NoError(b.t, failed)
	path := filepath.Join(dir, "failed.png")
	require.NoError(b.t, os.WriteFile(path, picture, 0o600))
	require.FailNow(b.t, what, "%v; the browser shows %s", err, path)
}

// until waits for a condition on what the page shows.
func (b *browser) until(what string, condition func() (bool, error)) {
	b.t.Helper()
	b.check(b.within(limit, condition), what)
}

// within waits for a condition on what the page shows, for a time.
func (b *browser) within(patience time.Duration, condition func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		if met, err := condition(); met || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *browser) visit(url string) {
	b.t.Helper()
	b.check(chromedp.Do(b.ctx, chromedp.Navigate(url)), "open "+url)
}

func (b *browser) reload() error { return chromedp.Do(b.ctx, chromedp.Reload()) }

// place returns the middle of the first element of a selector that a person can see
// and reach, whose first line is the text; any text, if that is empty. It is null
// while there is none, or while it is covered. It may press the element: between a look
// and a click with the mouse, a page that is being loaded moves something else there.
const place = `((selector, text, press) => {
	for (const e of document.querySelectorAll(selector)) {
		const line = e.innerText.trim().split("\n")[0].trim();
		if (!e.checkVisibility({visibilityProperty: true, opacityProperty: true}) || e.disabled || text !== "" && line !== text) continue;
		const r = e.getBoundingClientRect();
		const at = [r.x + r.width / 2, r.y + r.height / 2];
		if (e.contains(document.elementFromPoint(...at))) {
			if (press) { e.focus(); e.click(); }
			return at;
		}
		e.scrollIntoView({block: "center"});
	}
	return null;
})(%s, %s, %t)`

// enter types into a field.
func (b *browser) enter(selector, text string) {
	b.t.Helper()
	b.click(selector, "")
	b.check(chromedp.Do(b.ctx, chromedp.KeyEvent(text)), "type "+text)
}

// click presses an element once it stands still.
func (b *browser) click(selector, text string) {
	b.t.Helper()
	b.check(b.clickWithin(limit, selector, text), fmt.Sprintf("click %s %q", selector, text))
}

// tries presses an element, if it stands still within a time.
func (b *browser) tries(patience time.Duration, selector, text string) (bool, error) {
	err := b.clickWithin(patience, selector, text)
	if errors.Is(err, context.DeadlineExceeded) && b.ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}

func (b *browser) clickWithin(patience time.Duration, selector, text string) error {
	var before []float64
	return b.within(patience, func() (bool, error) {
		at, err := b.place(selector, text, false)
		still := len(at) == 2 && slices.Equal(at, before)
		before = at
		if err != nil || !still {
			return false, err
		}
		at, err = b.place(selector, text, true)
		return at != nil, err
	})
}

func (b *browser) place(selector, text string, press bool) ([]float64, error) {
	return webtest.Evaluate[[]float64](b.ctx, fmt.Sprintf(place, quoted(selector), quoted(text), press))
}

func quoted(s string) string {
	data, _ := json.Marshal(s) // never fails for a string
	return string(data)
}

// shown returns what the visible elements of a selector say, frames included.
func (b *browser) shown(selector string) string {
	b.t.Helper()
	text, err := webtest.Evaluate[string](b.ctx, fmt.Sprintf(
		`[...document.querySelectorAll(%s)].filter(e => e.checkVisibility()).map(e => (e.contentDocument?.body ?? e).innerText).join("\n")`, quoted(selector)))
	b.check(err, "read "+selector)
	return text
}

// follows presses a link until the page behind it has an element. A list that is being drawn anew loses a click.
func (b *browser) follows(selector, text, leadsTo string) {
	b.t.Helper()
	b.until(fmt.Sprintf("%s %q leads to %s", selector, text, leadsTo), func() (bool, error) {
		there := func() (bool, error) { return b.shown(leadsTo) != "", nil }
		if met, err := there(); met || err != nil {
			return met, err
		}
		if pressed, err := b.tries(10*time.Second, selector, text); !pressed || err != nil {
			return false, err
		}
		err := b.within(10*time.Second, there)
		return err == nil, nil //nolint:nilerr // else it is pressed again
	})
}

// reads waits until an element says something, wherever its lines break.
func (b *browser) reads(selector, text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("%s says %q", selector, text), func() (bool, error) {
		return strings.Contains(strings.Join(strings.Fields(b.shown(selector)), " "), text), nil
	})
}

// frame runs a script in the frame that has a session's current details, where the
// script finds it as d.
func frame[T any](b *browser, script string) T {
	b.t.Helper()
	value, err := webtest.Evaluate[T](b.ctx,
		`(d => `+script+`)(document.querySelector("#user-metadata-current-details")?.contentDocument ?? new Document())`)
	b.check(err, "read the current details")
	return value
}

// details loads a session's page until its current details say something, and
// returns all of them. A page that was loaded again also has a new form for updates:
// an old one shows what it had, and sends nothing of it.
func (b *browser) details(says string) string {
	b.t.Helper()
	text := ""
	var patience time.Duration // doubles: a slow machine shows a page in parts for seconds
	loaded := time.Now()
	b.until(fmt.Sprintf("the current details say %q", says), func() (bool, error) {
		text = frame[string](b, `d.body?.innerText ?? ""`)
		if strings.Contains(text, says) {
			return true, nil
		}
		if text == "" || time.Since(loaded) < patience {
			return false, nil
		}
		loaded, patience = time.Now(), max(2*time.Second, 2*patience)
		return false, b.reload()
	})
	// What does not fit into the frame is cut off.
	require.True(b.t, frame[bool](b, `d.documentElement.scrollWidth <= d.documentElement.clientWidth`),
		"the details are wider than their frame:\n%s", text)
	require.True(b.t, frame[bool](b, `[...d.querySelectorAll("pre")].every(e => e.scrollWidth <= e.clientWidth)`),
		"an answer is cut off:\n%s", text)
	return text
}

// copied returns what a person gets who selects the code under some words of the
// current details, and copies it.
func (b *browser) copied(under string) string {
	b.t.Helper()
	text := frame[string](b, fmt.Sprintf(`{
		const words = [...d.querySelectorAll("p")].find(e => e.innerText.startsWith(%s));
		if (words?.nextElementSibling?.tagName !== "PRE") return "";
		d.getSelection().selectAllChildren(words.nextElementSibling);
		return d.getSelection().toString();
	}`, quoted(under)))
	require.True(b.t, json.Valid([]byte(text)), "under %q there is no JSON to copy, but %q", under, text)
	return text
}

// send sends an update as a person does; the form stays open at a refusal.
func (b *browser) send(update, argument string) {
	b.t.Helper()
	const form = "dialog[open] [data-testid=update-select-button]"
	b.until("open the form of an update", func() (bool, error) {
		// A page that is still being loaded takes the menu or the form away again.
		if met, err := b.tries(time.Second, form, ""); met || err != nil {
			return met, err
		}
		if met, err := b.tries(5*time.Second, "button", "More Actions"); !met {
			return false, err
		}
		if met, err := b.tries(5*time.Second, "[data-testid=update-button]", "Send an Update"); !met {
			return false, err
		}
		return b.tries(5*time.Second, form, "")
	})
	b.click("dialog[open] [role=option]", update)
	b.click("dialog[open] .cm-content", "")
	_, err := chromedp.Call(b.ctx, input.InsertText, input.InsertTextParams{Text: argument})
	b.check(err, "paste")
	require.JSONEq(b.t, argument, b.shown("dialog[open] .cm-content"))
	b.click("dialog[open] button", "Submit")
}

// accepted waits until the form of an update is closed.
func (b *browser) accepted() {
	b.t.Helper()
	b.until("the update is accepted", func() (bool, error) {
		refusal := b.shown("dialog[open] [role=alert]")
		if strings.TrimSpace(refusal) != "" {
			return false, fmt.Errorf("it is refused: %s", refusal)
		}
		return b.shown("dialog[open]") == "", nil
	})
}

// refused waits until the form says why an update is refused, and leaves it.
func (b *browser) refused(why string) {
	b.t.Helper()
	b.reads("dialog[open]", why)
	b.check(b.reload(), "load the page again")
}

// newDev starts `maestro dev` with a worker file, as a person does, and returns the
// address of its Web UI.
func newDev(t *testing.T, agents string) (*world, string) {
	t.Helper()
	w := emptyWorld(t)
	w.namespace = "default"
	w.write("agents.yaml", agents)
	program, err := filepath.Abs("../../../bin/maestro")
	require.NoError(t, err)
	require.FileExists(t, program, "run `make build` first")
	dev := w.start(program, "dev", "--port", "0", "--ui-port", "0")
	t.Cleanup(func() {
		dev.signal(syscall.SIGINT)
		w.dies(dev)
	})
	w.eventually("maestro dev is up", func() bool { return strings.Contains(dev.output.String(), "Stop with Ctrl-C") })
	said := regexp.MustCompile(`Temporal +(127\.0\.0\.1:\d+)[\s\S]*Web UI +(http://127\.0\.0\.1:\d+)`).FindStringSubmatch(dev.output.String())
	require.Len(t, said, 3, dev.output.String())
	w.address = said[1]
	return w, said[2]
}
