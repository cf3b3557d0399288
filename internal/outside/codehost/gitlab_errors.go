package codehost

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	gitlab "gitlab.com/gitlab-org/api/client-go"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/httpclient"
	"github.com/maestro-hive/maestro/internal/platform/retryafter"
)

const (
	// maxWords bounds what is repeated of GitLab's own words, in characters.
	maxWords = 300
	// gitlabWait is the wait for a limit that states none. GitLab counts requests by the minute.
	gitlabWait = time.Minute
)

// gitlabToken finds tokens of GitLab.
var gitlabToken = regexp.MustCompile(`\bgl[a-z]{2,6}-[\w.-]{16,}`)

// line is a text of others as one short line without credentials.
func (g *GitLab) line(text string) string {
	text = strings.ReplaceAll(text, g.options.Token, "***")
	return safetext.Clip(gitlabToken.ReplaceAllString(text, "***"), maxWords)
}

func (g *GitLab) failf(c failures.Category, format string, args ...any) *failures.Failure {
	return failures.Failf(c, "GitLab at %s cannot %s", g.web.Host, fmt.Sprintf(format, args...))
}

// fail is an error of the API as a [*failures.Failure]. doing completes "GitLab cannot ...".
func (g *GitLab) fail(err error, doing string, args ...any) error {
	doing = g.line(fmt.Sprintf(doing, args...))
	var refusal *gitlab.ErrorResponse
	switch {
	case err == nil:
		return nil
	case errors.Is(err, gitlab.ErrNotFound):
		return g.failf(failures.InvalidRequest, "%s: it does not exist, or the token may not see it (404); check the name, and that "+
			"the token's account has at least the role Developer in the project", doing)
	case errors.As(err, &refusal) && refusal.Response != nil:
		return g.refusal(refusal, doing)
	}
	return g.failf(failures.APIError, "%s: %s", doing, g.line(httpclient.NoAnswer(err, g.options.Timeout)))
}

// braces are what the library writes around GitLab's words.
var braces = strings.NewReplacer("{", "", "}", "", "[", "", "]", "")

// said is what GitLab says of an error. A web page that answers in its place says nothing.
func (g *GitLab) said(e *gitlab.ErrorResponse) string {
	text := strings.TrimPrefix(e.Message, "failed to parse unknown error format: ")
	if strings.HasPrefix(text, "<") {
		return e.Response.Status
	}
	return strings.TrimSpace(e.Response.Status + " " + braces.Replace(g.line(text)))
}

// refusal is what an answer with an error's status means.
func (g *GitLab) refusal(e *gitlab.ErrorResponse, doing string) *failures.Failure {
	status, said := e.Response.StatusCode, g.said(e)
	wait := textfmt.Duration(retryafter.Parse(e.Response.Header, g.options.Clock()))
	var f *failures.Failure
	switch {
	case status == http.StatusTooManyRequests:
		f = g.failf(failures.RateLimited, "%s for now: it limits the requests of this account (%s)", doing, said)
		if f.RetryAfter = wait; wait == 0 {
			f.RetryAfter = textfmt.Duration(gitlabWait)
		}
	// A method is not allowed for the earlier name of a project. The next attempt finds the name.
	case status >= 500, status == http.StatusRequestTimeout, status == http.StatusMethodNotAllowed:
		f = g.failf(failures.APIError, "%s: it fails (%s)", doing, said)
		f.RetryAfter = wait
	case status < 400:
		f = g.failf(failures.InvalidRequest, "%s: it redirects to another address (%s); set GitLab's final address in the worker file",
			doing, said)
	case status == http.StatusUnauthorized:
		f = g.failf(failures.Auth, "%s: it refuses the token (%s): it is wrong, expired or revoked, or its account may not do this; "+
			"set a token with the scope api in the variable or file that the worker file names", doing, said)
	case status == http.StatusForbidden:
		f = g.failf(failures.Auth, "%s: the token does not permit it (%s); it needs the scope api, and its account at least the role "+
			"Developer in the project, which may not be archived", doing, said)
	default:
		f = g.failf(failures.InvalidRequest, "%s: it refuses the request (%s)", doing, said)
	}
	return f
}
