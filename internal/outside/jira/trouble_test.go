package jira_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/outside/jira"
	"github.com/maestro-hive/maestro/internal/testkit/jiratest"
)

// meanings are those of a fault for a ticket that was to be created, for a search and for a comment.
type meanings struct{ create, find, comment session.TroubleKind }

// alike are the same for all.
func alike(k session.TroubleKind) meanings { return meanings{k, k, k} }

// header is a fault with a status and a header.
func header(status int, name, value string) jiratest.Fault {
	return jiratest.Fault{Status: status, Header: map[string]string{name: value}}
}

// TestWhatGoesWrong: what a fault means, and what is said about it.
func TestWhatGoesWrong(t *testing.T) {
	t.Parallel()
	lost := meanings{session.Unclear, session.Unreached, session.Unclear}
	away, wrong := alike(session.Unreached), alike(session.Misconfigured)
	nobody := header(200, "X-Seraph-LoginReason", "AUTHENTICATED_FAILED")
	nobody.Body = `{"issues":[],"key":"MD-9"}`
	redirect := header(302, "Location", "https://sso.example.org/login?ticket=s3cr3t")
	unsigned := jiratest.Refusal(401, nil, "Client must be authenticated to access this resource.")
	for name, tt := range map[string]struct {
		fault jiratest.Fault
		meanings
		after   time.Duration
		message string
	}{
		"cut":         {jiratest.Fault{Cut: true}, lost, 0, "the connection was closed"},
		"answer lost": {jiratest.Fault{Lost: true}, lost, 0, "the connection was closed"},
		"half an answer": {
			jiratest.Fault{Half: true}, meanings{session.Unclear, session.Unreached, ""}, 0, "the connection was closed",
		},
		"slow":               {jiratest.Fault{Delay: time.Minute}, lost, 0, "no answer within"},
		"500":                {jiratest.Refusal(500, nil, "Internal server error"), lost, 0, "status 500"},
		"503 for a while":    {header(503, "Retry-After", "120"), away, 2 * time.Minute, "requires a wait"},
		"429":                {jiratest.RateLimited(30 * time.Second), away, 30 * time.Second, "requires a wait"},
		"429 until a date":   {header(429, "Retry-After", "Sat, 21 Nov 2026 12:01:00 GMT"), away, time.Minute, "requires a wait"},
		"429 until a reset":  {header(429, "X-RateLimit-Reset", "2026-11-21T12:05Z"), away, 5 * time.Minute, "requires a wait"},
		"429 without a word": {jiratest.Fault{Status: 429}, away, 0, "requires a wait"},
		"429 for ever":       {header(429, "Retry-After", "99999999999"), away, 192 * time.Hour, "requires a wait"},
		"401":                {unsigned, wrong, 0, "refused the credentials in JIRA_EMAIL and JIRA_TOKEN"},
		"served as nobody":   {nobody, wrong, 0, "refused the credentials"},
		"a CAPTCHA":          {captcha(), wrong, 0, "CAPTCHA"},
		"403":                {jiratest.Refusal(403, nil, "No."), wrong, 0, `"No."`},
		"404": {
			jiratest.Refusal(404, nil, "Nothing here."),
			meanings{session.Misconfigured, session.Misconfigured, session.Gone},
			0,
			`"Nothing here."`,
		},
		"a dead link": {
			jiratest.Page(404, "Oops, you&#39;ve found a dead link."), wrong, 0, "set Jira's own address with its path in jira.url",
		},
		"400": {
			jiratest.Refusal(400, map[string]string{"customfield_10010": "Site is required."}), wrong, 0, "Site is required.",
		},
		"410":            {jiratest.Refusal(410, nil, "The requested API has been removed."), wrong, 0, "jira.deployment"},
		"a page instead": {jiratest.Page(200, "Sign in &amp; go"), wrong, 0, "a single sign-on or proxy"},
		"a redirect":     {redirect, wrong, 0, "(302 https://sso.example.org/login) answers"},
		"nonsense": {
			jiratest.Fault{Status: 201, Body: "ok"}, meanings{session.Unclear, session.Unreached, ""}, 0, "not that of Jira's API",
		},
		"the token in the answer": {jiratest.Refusal(400, nil, "bad "+jiratest.Token), wrong, 0, "bad ***"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := jiratest.New(t, jiratest.Options{})
			config := configOf(s, jiratest.Options{})
			if tt.fault.Delay > 0 {
				config.Timeout = 200 * time.Millisecond
			}
			c, err := jira.New(config)
			require.NoError(t, err)
			key := s.Add("MD", map[string]any{})
			s.Fail(tt.fault)

			_, err = c.Create(t.Context(), spec.HelpJira{Project: "MD"}, label, asked())
			got := trouble(t, err)
			require.Equal(t, tt.create, got.Kind, got.Message)
			require.Equal(t, textfmt.Duration(tt.after), got.RetryAfter)
			require.Contains(t, got.Message, tt.message)
			require.NotContains(t, got.Message, "s3cr3t")
			_, _, err = c.Find(t.Context(), "MD", label)
			got = trouble(t, err)
			require.Equal(t, tt.find, got.Kind, got.Message)
			require.Equal(t, textfmt.Duration(tt.after), got.RetryAfter)
			err = c.Comment(t.Context(), session.TicketComment{Key: key, Notice: asked(), Occurrences: 1})
			if tt.comment == "" && err == nil {
				return // what the answer says does not matter once it is a good one
			}
			if tt.comment != "" {
				require.Equal(t, tt.comment, trouble(t, err).Kind)
			}
		})
	}
}

// captcha is what Jira says once too many logins have failed.
func captcha() jiratest.Fault {
	f := jiratest.Page(403, "Forbidden (403)")
	f.Header["X-Seraph-LoginReason"] = "AUTHENTICATION_DENIED"
	f.Header["X-Authentication-Denied-Reason"] = "CAPTCHA_CHALLENGE; login-url=https://jira.example.org/login.jsp"
	return f
}

// TestWhatJiraRefuses: what is configured wrongly is named by the key that sets it.
func TestWhatJiraRefuses(t *testing.T) {
	t.Parallel()
	md := func(change func(*spec.HelpJira)) spec.HelpJira {
		how := spec.HelpJira{Project: "MD"}
		change(&how)
		return how
	}
	bug := func(change jiratest.Type) jiratest.Project {
		change.Name = "Bug"
		return jiratest.Project{Types: []jiratest.Type{change}}
	}
	site := jiratest.Field{ID: "customfield_10010", Name: "Site", Required: true}
	ward := jiratest.Field{ID: "customfield_2", Name: "Ward", Required: true}
	priorities := map[failures.Category]string{failures.TestFailure: "P0"}
	plain, none := md(func(*spec.HelpJira) {}), jiratest.Project{}
	for name, tt := range map[string]struct {
		how     spec.HelpJira
		project jiratest.Project
		says    []string
	}{
		"no project":    {spec.HelpJira{Project: "NO"}, none, []string{"project NO", "under help.jira"}},
		"an unseen one": {plain, jiratest.Project{Denied: []string{"BROWSE_PROJECTS"}}, []string{"project MD", "Browse Projects"}},
		"no permission": {
			plain,
			jiratest.Project{Denied: []string{"CREATE_ISSUES"}},
			[]string{"Create Issues", "project MD", "You do not have permission"},
		},
		"no type": {md(func(h *spec.HelpJira) { h.Type = "Bugg" }), none, []string{"type Bugg", "help.jira"}},
		"no component": {
			md(func(h *spec.HelpJira) { h.Components = []string{"UI"} }), none, []string{"components: ", "'UI' is not valid"},
		},
		"no priority": {md(func(h *spec.HelpJira) { h.Priorities = priorities }), none, []string{"priority: ", "'P0' is not valid"}},
		"a label":     {md(func(h *spec.HelpJira) { h.Labels = []string{"a b"} }), none, []string{"labels: ", "contains spaces"}},
		"no field": {
			md(func(h *spec.HelpJira) { h.Fields = map[string]any{"customfield_1": "x"} }), none,
			[]string{"customfield_1: ", "not on the appropriate screen"},
		},
		"no labels": {
			plain, bug(jiratest.Type{Without: []string{"labels"}}), []string{"the field labels, by which Maestro finds its tickets"},
		},
		"required": {
			plain, bug(jiratest.Type{Fields: []jiratest.Field{site, ward}}),
			[]string{`customfield_10010: Site is required.`, "Ward is required."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, o jiratest.Options) {
				p := tt.project
				p.Key = "MD"
				if p.Types == nil {
					p.Types = []jiratest.Type{{Name: "Bug"}}
				}
				o.Projects = []jiratest.Project{p}
				s, c := open(t, o)
				_, err := c.Create(t.Context(), tt.how, label, asked())
				got := trouble(t, err)
				require.Equal(t, session.Misconfigured, got.Kind)
				for _, say := range tt.says {
					require.Contains(t, got.Message, say)
				}
				require.Empty(t, s.Issues())
			})
		})
	}
}

func TestMissingCredentialsAreSaidAtOnce(t *testing.T) {
	t.Parallel()
	_, err := jira.New(jira.Config{URL: "https://x.atlassian.net", Deployment: jira.Cloud, EmailEnv: "MAIL", TokenEnv: "TOK"})
	require.Contains(t, trouble(t, err).Message, "set MAIL to an account's email address and TOK to an API token")
	_, err = jira.New(jira.Config{URL: "https://x.org", Deployment: jira.DataCenter, TokenEnv: "TOK"})
	require.Contains(t, trouble(t, err).Message, "set TOK to a personal access token")
	_, err = jira.New(jira.Config{URL: "x.org", Deployment: jira.DataCenter, TokenEnv: "TOK", Token: "t"})
	require.Contains(t, trouble(t, err).Message, "write it in full")
}

// TestNobodyThere: what was never sent is not done.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	tls := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(tls.Close)
	for name, tt := range map[string]struct{ url, message string }{
		"refused":     {"http://" + address, "connection refused"},
		"no name":     {"http://jira.invalid", "cannot be resolved"},
		"certificate": {tls.URL, "certificate is not trusted"},
		"no TLS":      {"https://" + plainServer(t), "failed: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := jira.New(jira.Config{
				URL: tt.url, Deployment: jira.DataCenter, Token: jiratest.Token, TokenEnv: "JIRA_TOKEN",
				Timeout: 10 * time.Second, Now: func() time.Time { return noon },
			})
			require.NoError(t, err)
			_, err = c.Create(t.Context(), spec.HelpJira{Project: "MD"}, label, asked())
			got := trouble(t, err)
			require.Equal(t, session.Unreached, got.Kind, got.Message)
			require.Contains(t, got.Message, tt.message)
		})
	}
}

// plainServer is a server without TLS.
func plainServer(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func TestWorkerThatStopsLeavesACreateUnclear(t *testing.T) {
	t.Parallel()
	s, c := open(t, jiratest.Options{})
	s.Fail(jiratest.Fault{Delay: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := c.Create(ctx, spec.HelpJira{Project: "MD"}, label, asked())
		done <- err
	}()
	require.Eventually(t, func() bool { return len(s.Requests()) == 1 }, time.Minute, time.Millisecond)
	cancel()
	got := trouble(t, <-done)
	require.Equal(t, session.Unclear, got.Kind)
	require.Contains(t, got.Message, "stopping")
}

// TestRedirectsCarryNoCredentials: neither a redirect of the API nor the host of
// an attachment gets to know who asks.
func TestRedirectsCarryNoCredentials(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, o jiratest.Options) {
		heard := make(chan http.Header, 10)
		elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { heard <- r.Header.Clone() }))
		t.Cleanup(elsewhere.Close)
		s, c := open(t, o)
		key := s.Add("MD", map[string]any{"summary": "x"}, jiratest.Attachment{Name: "a.txt", Content: []byte("abc")})
		issue, err := c.Fetch(t.Context(), key, jira.DefaultLimits())
		require.NoError(t, err)

		s.Fail(jiratest.Fault{Status: 307, Header: map[string]string{"Location": elsewhere.URL + "/x"}})
		_, err = c.Create(t.Context(), spec.HelpJira{Project: "MD"}, label, asked())
		require.Equal(t, session.Misconfigured, trouble(t, err).Kind)
		require.Empty(t, heard, "the API's redirects are not followed")

		body, err := c.Open(t.Context(), issue.Attachments[0])
		require.NoError(t, err)
		require.NoError(t, body.Close())
		require.Empty(t, (<-heard).Get("Authorization"), "those of files are, by nobody")
	})
}
