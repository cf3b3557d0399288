package web

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
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
