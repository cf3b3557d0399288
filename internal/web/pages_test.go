package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/workflows"
)

// allPages are the addresses of one page of each kind.
var allPages = []string{"/inbox", "/sessions", "/sessions?team=web&status=failed&since=7d", "/sessions/web-7", "/sessions/absent", "/absent"}

// Whatever agents and others have written into the documents, pages show it as text.
func TestHostileTextsAreText(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	hostile(&p.inbox)
	hostile(&p.sessions)
	hostile(&p.read)
	server := dashboard(t, p)
	for _, path := range allPages {
		_, text := visit(t, server.URL+path)
		inert(t, text)
		require.False(t, strings.ContainsAny(text, "\x1b\u202e"), path)
	}
	_, text := visit(t, server.URL+"/inbox")
	require.Contains(t, text, "&lt;script&gt;alert(2)&lt;/script&gt;", "it is shown")
}

func TestTheInboxSaysWhatIsNeeded(t *testing.T) {
	t.Parallel()
	_, text := visit(t, dashboard(t, samplePlane()).URL+"/inbox")
	for _, said := range []string{
		"phase frontend</a> needs approval", "backend/developer</a> needs help", "design/architect</a> needs a larger budget", "1d 2h", "TestStore", "$12.40",
		`action="/sessions/web-7/requests/r-1/answer"`, `value="approve" formnovalidate`, `href="https://jira.example/browse/MD-41"`, "maestro resolve web-5 supply PATH", "maestro status far-1",
		`<span class="count hot">4<`,
	} {
		require.Contains(t, text, said)
	}
}

// post sends a form and does not follow where it leads.
func post(t *testing.T, address string, form url.Values) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer
}

func TestAnAnswerLeadsBackToThePage(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	server := dashboard(t, p)
	answer := post(t, server.URL+"/sessions/web-7/requests/r-1/answer", url.Values{"action": {"reject"}, "note": {" too slow "}, "return": {"/sessions/web-7?x=1"}})
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Equal(t, "/sessions/web-7?of=web-7&said=reject&x=1", answer.Header.Get("Location"))
	require.Equal(t, []session.Answer{{Request: "r-1", Action: session.AnswerReject, Note: "too slow", By: "alice"}}, p.answers)
	_, text := visit(t, server.URL+answer.Header.Get("Location"))
	require.Contains(t, text, "Rejected. Session web-7 does the phase again with your note.")
	_, text = visit(t, server.URL+"/inbox?said=reject&of=%3Cb%3E")
	require.NotContains(t, text, "Rejected.")

	for _, elsewhere := range []string{"https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", ""} {
		answer := post(t, server.URL+"/sessions/web-7/requests/r-1/answer", url.Values{"action": {"approve"}, "return": {elsewhere}})
		require.True(t, strings.HasPrefix(answer.Header.Get("Location"), "/inbox?"), elsewhere)
	}
}

func TestABudgetIsRaised(t *testing.T) {
	t.Parallel()
	p := samplePlane()
	server := dashboard(t, p)
	require.Equal(t, http.StatusSeeOther, post(t, server.URL+"/sessions/web-6/raise", url.Values{"usd": {"2.5"}, "tokens": {"500,000"}, "scope": {"phase design"}}).StatusCode)
	require.Equal(t, []workflows.Raise{{USD: cost.USD(2.5e9), Tokens: 500_000, Phase: "design", By: "alice"}}, p.raises)
	for _, bad := range []url.Values{{}, {"usd": {"-1"}}, {"usd": {"five"}}, {"tokens": {"1e99"}}} {
		require.Equal(t, http.StatusUnprocessableEntity, post(t, server.URL+"/sessions/web-6/raise", bad).StatusCode)
	}
}
