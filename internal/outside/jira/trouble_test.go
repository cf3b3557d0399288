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

// TestWhatGoesWrong: what a fault means for a ticket that was to be created, for a
// search and for a comment, and what is said about it.
func TestWhatGoesWrong(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault                 jiratest.Fault
		create, find, comment session.TroubleKind
		after                 time.Duration
		message               string
	}{
		"cut": {
			jiratest.Fault{Cut: true},
			session.Unclear, session.Unreached, session.Unclear, 0,
			"the connection was closed",
		},
		"answer lost": {
			jiratest.Fault{Lost: true},
			session.Unclear, session.Unreached, session.Unclear, 0,
			"the connection was closed",
		},
		"half an answer": {jiratest.Fault{Half: true}, session.Unclear, session.Unreached, "", 0, "the connection was closed"},
		"slow": {
			jiratest.Fault{Delay: time.Minute},
			session.Unclear, session.Unreached, session.Unclear, 0,
			"no answer within",
		},
		"500": {
			jiratest.Refusal(500, nil, "Internal server error"), session.Unclear, session.Unreached,
			session.Unclear, 0, "status 500",
		},
		"503 for a while": {
			jiratest.Fault{Status: 503, Header: map[string]string{"Retry-After": "120"}},
			session.Unreached,
			session.Unreached, session.Unreached, 2 * time.Minute, "requires a wait",
		},
		"429": {
			jiratest.RateLimited(30 * time.Second), session.Unreached, session.Unreached, session.Unreached,
			30 * time.Second, "requires a wait",
		},
		"429 until a date": {
			jiratest.Fault{
				Status: 429,
				Header: map[string]string{"Retry-After": "Sat, 21 Nov 2026 12:01:00 GMT"},
			},
			session.Unreached, session.Unreached,
			session.Unreached, time.Minute, "requires a wait",
		},
		"429 until a reset": {
			jiratest.Fault{Status: 429, Header: map[string]string{"X-RateLimit-Reset": "2026-11-21T12:05Z"}},
			session.Unreached, session.Unreached, session.Unreached, 5 * time.Minute, "requires a wait",
		},
		"429 without a word": {
			jiratest.Fault{Status: 429},
			session.Unreached, session.Unreached, session.Unreached, 0,
			"requires a wait",
		},
		"429 for ever": {
			jiratest.Fault{Status: 429, Header: map[string]string{"Retry-After": "99999999999"}},
			session.Unreached, session.Unreached, session.Unreached, 192 * time.Hour, "requires a wait",
		},
		"401": {
			jiratest.Refusal(401, nil, "Client must be authenticated to access this resource."),
			session.Misconfigured, session.Misconfigured, session.Misconfigured, 0,
			"refused the credentials in JIRA_EMAIL and JIRA_TOKEN",
		},
		"served as nobody": {
			jiratest.Fault{
				Status: 200, Body: `{"issues":[],"key":"MD-9"}`,
				Header: map[string]string{"X-Seraph-LoginReason": "AUTHENTICATED_FAILED"},
			},
			session.Misconfigured, session.Misconfigured,
			session.Misconfigured, 0, "refused the credentials",
		},
		"a CAPTCHA": {captcha(), session.Misconfigured, session.Misconfigured, session.Misconfigured, 0, "CAPTCHA"},
		"403": {
			jiratest.Refusal(403, nil, "No."), session.Misconfigured, session.Misconfigured,
			session.Misconfigured, 0, `"No."`,
		},
		"404": {
			jiratest.Refusal(404, nil, "Nothing here."), session.Misconfigured, session.Misconfigured,
			session.Gone, 0, `"Nothing here."`,
		},
		"a dead link": {
			jiratest.Page(404, "Oops, you&#39;ve found a dead link."), session.Misconfigured,
			session.Misconfigured, session.Misconfigured, 0, "set Jira's own address with its path in jira.url",
		},
		"400": {
			jiratest.Refusal(400, map[string]string{"customfield_10010": "Site is required."}),
			session.Misconfigured, session.Misconfigured, session.Misconfigured, 0, "Site is required.",
		},
		"410": {
			jiratest.Refusal(410, nil, "The requested API has been removed."), session.Misconfigured,
			session.Misconfigured, session.Misconfigured, 0, "jira.deployment",
		},
		"a page instead": {
			jiratest.Page(200, "Sign in &amp; go"), session.Misconfigured, session.Misconfigured,
			session.Misconfigured, 0, "a single sign-on or proxy",
		},
		"a redirect": {
			jiratest.Fault{
				Status: 302,
				Header: map[string]string{"Location": "https://sso.example.org/login?ticket=s3cr3t"},
			},
			session.Misconfigured,
			session.Misconfigured, session.Misconfigured, 0, "(302 https://sso.example.org/login) answers",
		},
		"nonsense": {
			jiratest.Fault{Status: 201, Body: "ok"},
			session.Unclear, session.Unreached, "", 0,
			"not that of Jira's API",
		},
		"the token in the answer": {
			jiratest.Refusal(400, nil, "bad "+jiratest.Token), session.Misconfigured, session.Misconfigured,
			session.Misconfigured, 0, "bad ***",
		},
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
	for name, tt := range map[string]struct {
		how     spec.HelpJira
		project jiratest.Project
		says    []string
	}{
		"no project": {spec.HelpJira{Project: "NO"}, jiratest.Project{}, []string{"project NO", "under help.jira"}},
		"an unseen one": {
			spec.HelpJira{Project: "MD"},
			jiratest.Project{Denied: []string{"BROWSE_PROJECTS"}},
			[]string{"project MD", "Browse Projects"},
		},
		"no permission": {
			spec.HelpJira{Project: "MD"},
			jiratest.Project{Denied: []string{"CREATE_ISSUES"}},
			[]string{"Create Issues", "project MD", "You do not have permission"},
		},
		"no type": {spec.HelpJira{Project: "MD", Type: "Bugg"}, jiratest.Project{}, []string{"type Bugg", "help.jira"}},
		"no component": {
			spec.HelpJira{Project: "MD", Components: []string{"UI"}},
			jiratest.Project{},
			[]string{"components: ", "'UI' is not valid"},
		},
		"no priority": {
			spec.HelpJira{Project: "MD", Priorities: map[failures.Category]string{failures.TestFailure: "P0"}},
			jiratest.Project{},
			[]string{"priority: ", "'P0' is not valid"},
		},
		"a label": {
			spec.HelpJira{Project: "MD", Labels: []string{"a b"}},
			jiratest.Project{},
			[]string{"labels: ", "contains spaces"},
		},
		"no field": {
			spec.HelpJira{Project: "MD", Fields: map[string]any{"customfield_1": "x"}},
			jiratest.Project{},
			[]string{"customfield_1: ", "not on the appropriate screen"},
		},
		"no labels": {
			spec.HelpJira{Project: "MD"},
			jiratest.Project{Types: []jiratest.Type{{Name: "Bug", Without: []string{"labels"}}}},
			[]string{"the field labels, by which Maestro finds its tickets"},
		},
		"required": {
			spec.HelpJira{Project: "MD"},
			jiratest.Project{Types: []jiratest.Type{{Name: "Bug", Fields: []jiratest.Field{{
				ID: "customfield_10010", Name: "Site",
				Required: true,
			}, {ID: "customfield_2", Name: "Ward", Required: true}}}}},
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
