//go:build system

package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
	"github.com/maestro-hive/maestro/internal/testkit/webtest"
)

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
