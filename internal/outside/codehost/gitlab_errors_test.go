package codehost_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/outside/codehost"
	"github.com/maestro-hive/maestro/internal/testkit/gitlabtest"
)

func TestGitLabFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault    gitlabtest.Fault
		category failures.Category
		wait     time.Duration
		text     string
	}{
		"a wrong token": {gitlabtest.Refusal(401, "401 Unauthorized"), failures.Auth, 0, "it is wrong, expired or revoked"},
		"a missing scope": {
			gitlabtest.Fault{Status: 403, Body: `{"error":"insufficient_scope","scope":"api"}`}, failures.Auth, 0, "insufficient_scope",
		},
		"a missing right":      {gitlabtest.Refusal(403, "403 Forbidden"), failures.Auth, 0, "at least the role Developer"},
		"nothing there":        {gitlabtest.Refusal(404, "404 Not found"), failures.InvalidRequest, 0, "or the token may not see it"},
		"a limit":              {gitlabtest.RateLimited(42 * time.Second), failures.RateLimited, 42 * time.Second, "it limits"},
		"a limit without wait": {gitlabtest.RateLimited(0), failures.RateLimited, time.Minute, "Retry later"},
		"a limit with a reset": {
			gitlabtest.Fault{Status: 429, Header: map[string]string{"RateLimit-Remaining": "0", "RateLimit-Reset": "1767614430"}},
			failures.RateLimited, 30 * time.Second, "429",
		},
		"a bad gateway": {gitlabtest.BadGateway(), failures.APIError, 0, "it fails (502 Bad Gateway)"},
		"maintenance": {
			gitlabtest.Fault{Status: 503, Header: map[string]string{"Retry-After": "120"}}, failures.APIError, 2 * time.Minute, "503",
		},
		"a refusal": {
			gitlabtest.Refusal(422, "no \x1b[2J \n good"), failures.InvalidRequest, 0,
			"refuses the request (422 Unprocessable Entity message: no good)",
		},
		"a cut":          {gitlabtest.Fault{Cut: true}, failures.APIError, 0, "the connection was closed"},
		"a lost answer":  {gitlabtest.Fault{Lost: true}, failures.APIError, 0, "the connection was closed"},
		"a web page":     {gitlabtest.Fault{Status: 200, Body: "<html>sign in"}, failures.APIError, 0, "its answer cannot be read"},
		"half an answer": {gitlabtest.Fault{Status: 200, Body: `{"id":`}, failures.APIError, 0, "the connection was closed"},
		"an endless answer": {
			gitlabtest.Fault{Status: 200, Body: `{"name":"` + strings.Repeat("x", 33<<20)}, failures.APIError, 0, "longer than 32.0 MiB",
		},
		"tokens in a text": {
			gitlabtest.Refusal(400, "bad "+gitlabtest.Token+" glpat-somebody-elses-token-x"), failures.InvalidRequest, 0,
			"message: bad *** ***",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, gitlabtest.Project{})
			l.Fail(c.fault)
			_, err := l.host.Look(t.Context(), labProject, 1)
			f := failure(t, err)
			require.Equal(t, c.category, f.Category, f.Message)
			require.Equal(t, c.wait, f.RetryAfter.Std())
			require.Contains(t, f.Message, c.text)
			require.Contains(t, f.Message, "GitLab at 127.0.0.1:")
			require.Contains(t, f.Message, labProject)
			require.Len(t, l.Requests(), 1, "the caller tries again, not the driver")
		})
	}
}

func TestGitLabGetsNoAnswer(t *testing.T) {
	t.Parallel()
	s := gitlabtest.New(t, gitlabtest.Options{})
	s.AddProject(gitlabtest.Project{Name: labProject})
	s.Fail(gitlabtest.Fault{Delay: time.Hour})
	host, err := codehost.NewGitLab(codehost.GitLabOptions{
		URL: s.URL(), Token: gitlabtest.Token, Clock: time.Now, Timeout: 50 * time.Millisecond,
	})
	require.NoError(t, err)
	_, err = host.Repository(t.Context(), labProject)
	f := failure(t, err)
	require.Equal(t, failures.APIError, f.Category)
	require.Contains(t, f.Message, "no answer within 50ms")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = host.Repository(ctx, labProject)
	require.Equal(t, failures.APIError, failure(t, err).Category)
	s.Close()
	_, err = host.Repository(t.Context(), labProject)
	require.Contains(t, failure(t, err).Message, "connection refused")
}

func TestGitLabSendsItsTokenToNoOtherHost(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer other.Close()
	l := newLab(t, gitlabtest.Project{})
	l.Fail(gitlabtest.Fault{Status: http.StatusFound, Header: map[string]string{"Location": other.URL}})
	_, err := l.host.Repository(t.Context(), labProject)
	f := failure(t, err)
	require.Equal(t, failures.InvalidRequest, f.Category)
	require.Contains(t, f.Message, "redirects to another address (302 Found)")
}
