package web

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/faces/web/diffview"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

func testOptions() Options {
	return Options{
		Version: "test", Events: "/api/v1/events", Now: func() time.Time { return testNow },
		Log: slog.New(slog.DiscardHandler),
	}
}

// pages are those of a control plane, for an admin.
func (p *plane) pages() http.Handler {
	pages := New(testOptions(), p.Base)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pages.ServeHTTP(w, r.WithContext(access.With(r.Context(), access.Local("alice"))))
	})
}

// dashboard serves them.
func dashboard(t *testing.T, p *plane) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(p.pages())
	t.Cleanup(server.Close)
	return server
}

// visit asks for a page over a real connection.
func visit(t *testing.T, url string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer, string(body)
}

func TestPagesLoadNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	server := dashboard(t, newPlane(t))
	answer, text := visit(t, server.URL+"/<script>alert(1)</script>")
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
	require.Contains(t, answer.Header.Get("Content-Security-Policy"), "default-src 'none'")
	require.NotContains(t, answer.Header.Get("Content-Security-Policy"), "unsafe")
	inert(t, text)
	found := regexp.MustCompile(`(?:src|href)="(/assets/[^"]+)"`).FindAllStringSubmatch(text, -1)
	require.Len(t, found, 4)
	for _, m := range found {
		file, _ := visit(t, server.URL+m[1])
		require.Equal(t, http.StatusOK, file.StatusCode, m[1])
		require.Contains(t, file.Header.Get("Cache-Control"), "immutable")
	}
}

func TestAPageThatDidNotChangeIsNotSentAgain(t *testing.T) {
	t.Parallel()
	server := dashboard(t, newPlane(t))
	first, _ := visit(t, server.URL+"/inbox")
	second, text := visit(t, server.URL+"/inbox", "If-None-Match", first.Header.Get("ETag"))
	require.Equal(t, http.StatusNotModified, second.StatusCode)
	require.Empty(t, text)
}

// says holds that a page says something. It does not print the page, which is long. The end of a line is a space, as in
// HTML.
func says(t *testing.T, page string, all ...string) {
	t.Helper()
	page = strings.ReplaceAll(page, "\n", " ")
	for _, text := range all {
		if !strings.Contains(page, strings.ReplaceAll(text, "\n", " ")) {
			t.Errorf("the page does not say %q", text)
		}
	}
}

// diffTable is the table of a file's lines.
func diffTable(t *testing.T, name, patch string) string {
	t.Helper()
	f := diffview.Read([]control.ChangedFile{{Path: name, Change: "changed", Diff: patch}},
		diffview.Limits{Lines: 1000, FileLines: 500})[0]
	var b strings.Builder
	require.NoError(t, loadViews()["phase"].ExecuteTemplate(&b, "diff", f))
	return b.String()
}

// What an agent writes into a file and its name is text on the page and nothing else.
func TestHostileLinesAreText(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"x.html", "x.go", "x.md", "x", "<img src=x onerror=alert(1)>.js", "x.json"} {
		hostile := "@@ -1,2 +1,2 @@ <script>alert(1)</script>\n-<a " +
			"href=\"javascript:alert(1)\">a</a>\n+</td></table><script>alert(\"2\")</script> \u202egnp\u200b\x1b[2J\xff\n+&lt;b&gt; " +
			"[x](javascript:alert(1))\n"
		text := diffTable(t, name, hostile)
		for _, seen := range []string{`\u202e`, `\u200b`, `\x1b`, `\xff`} {
			require.Contains(t, text, `<span class="unseen">`+seen+`</span>`)
		}
		node, err := html.Parse(strings.NewReader(text))
		require.NoError(t, err)
		for n := range node.Descendants() {
			if n.Type == html.ElementNode {
				require.Contains(t, []string{"html", "head", "body", "table", "caption", "tbody", "tr", "td", "span"}, n.Data)
				for _, a := range n.Attr {
					require.Contains(t, []string{"class", "data-n", "colspan"}, a.Key)
				}
			}
		}
	}
}

func TestLongLinesAreCut(t *testing.T) {
	t.Parallel()
	text := diffTable(t, "x.js", "@@ -1 +1 @@\n+"+strings.Repeat("é", 5000)+"\n")
	require.Contains(t, text, "… 8000 more bytes")
	require.Less(t, len(text), 3000)
}

// Nothing of a line is lost.
func TestWhatIsShownIsTheLine(t *testing.T) {
	t.Parallel()
	lines := []string{
		"if x := `a", "b\tc`; \"d\" {  ", "# <html> 'x' 1.5e3 /* open", "", "\treturn &y[0] // ü 世界",
		"<!-- c --><b class='k'>$a</b>\r",
	}
	text := diffTable(t, "a.go", "@@ -1 +1 @@\n+"+strings.Join(lines, "\n+")+"\n")
	require.Equal(t, len(lines)+1, strings.Count(text, "<tr"), "a row for each line, and the head")
	require.Contains(t, text, `data-n="3"`)
	require.Contains(t, text, `<td class="code add"><span class="sr-only">added: </span>`)
	node, err := html.Parse(strings.NewReader(text))
	require.NoError(t, err)
	var shown []string
	for n := range node.Descendants() {
		if n.Type == html.ElementNode && n.Data == "td" && strings.Contains(fmt.Sprint(n.Attr), "code") {
			shown = append(shown, strings.TrimPrefix(textOf(n), "added: "))
		}
	}
	lines[5] = strings.Replace(lines[5], "\r", `\x0d`, 1)
	require.Equal(t, lines, shown)
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}
