package codehost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-github/v89/github"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/httpclient"
	"github.com/maestro-hive/maestro/internal/platform/retryafter"
)

const (
	// maxSentence bounds what is repeated of GitHub's own words, in characters.
	maxSentence = 300
	// limitWait is GitHub's advice for a limit that states no wait.
	limitWait = time.Minute
)

// credential finds tokens of GitHub, and the signed ones of an app.
var credential = regexp.MustCompile(`\b(gh[a-z]_|github_pat_|eyJ)[\w.-]+`)

// line is a text of others as one short line without credentials.
func (g *GitHub) line(text string) string {
	if g.options.Token != "" {
		text = strings.ReplaceAll(text, g.options.Token, "***")
	}
	return safetext.Clip(credential.ReplaceAllString(text, "***"), maxSentence)
}

// answerOf is the answer that an error is about, and what it says; nil if there was none.
func answerOf(err error) (*http.Response, string) {
	var limit *github.RateLimitError
	var secondary *github.AbuseRateLimitError
	var redirect *github.RedirectionError
	var refusal *github.ErrorResponse
	switch {
	case errors.As(err, &limit):
		return limit.Response, limit.Message
	case errors.As(err, &secondary):
		return secondary.Response, "secondary rate limit: " + secondary.Message
	case errors.As(err, &redirect):
		return redirect.Response, "it redirects to another address; set GitHub's final address in the worker file"
	case errors.As(err, &refusal):
		parts := []string{refusal.Message}
		for _, detail := range refusal.Errors {
			parts = append(parts, cmp.Or(detail.Message, detail.Field+" "+detail.Code))
		}
		return refusal.Response, strings.Join(parts, "; ")
	}
	return nil, ""
}

// says reports whether an error is an answer with a status and some words.
func says(err error, status int, words ...string) bool {
	answer, said := answerOf(err)
	said = strings.ToLower(said)
	return answer != nil && answer.StatusCode == status &&
		slices.ContainsFunc(words, func(w string) bool { return strings.Contains(said, w) })
}

// mayPass reports whether what failed may succeed later.
func mayPass(err error) bool {
	var f *failures.Failure
	return errors.As(err, &f) && f.MayPass()
}

// fail is an error of the API as a [*failures.Failure]. doing completes "GitHub cannot ...".
func (g *GitHub) fail(err error, doing string) error {
	var known *failures.Failure
	if err == nil {
		return nil
	}
	if errors.As(err, &known) {
		return known
	}
	answer, said := answerOf(err)
	if answer == nil {
		why := g.line(httpclient.NoAnswer(err, g.options.Timeout))
		return failures.Failf(failures.APIError, "GitHub at %s cannot %s: %s", g.web.Host, doing, why)
	}
	wait := retryafter.Parse(answer.Header, g.now())
	category, why := g.judge(err, answer, wait)
	f := g.failf(category, doing, why, fmt.Sprintf("%d: %s", answer.StatusCode, said))
	if category == failures.RateLimited {
		wait = cmp.Or(wait, limitWait)
	}
	f.RetryAfter = textfmt.Duration(wait)
	return f
}

func (g *GitHub) failf(c failures.Category, doing, why, said string) *failures.Failure {
	return failures.Failf(c, "GitHub at %s cannot %s: %s (%s)", g.web.Host, doing, why, g.line(said))
}

// judge says who has to act on an answer that refuses a request.
func (g *GitHub) judge(err error, answer *http.Response, wait time.Duration) (c failures.Category, why string) {
	const forbidden = http.StatusForbidden
	needs := "give the token or app access to the repository"
	if wanted := answer.Header.Get("X-Accepted-GitHub-Permissions"); wanted != "" {
		needs = "give the token or app these permissions for it: " + g.line(wanted)
	}
	limited := wait > 0 || says(err, forbidden, "rate limit", "abuse detection")
	switch status := answer.StatusCode; {
	case status == http.StatusTooManyRequests, status == forbidden && limited:
		return failures.RateLimited, "it takes no more requests of this account for now"
	case status >= http.StatusInternalServerError:
		return failures.APIError, "it fails"
	case status == http.StatusUnauthorized:
		return failures.Auth, "it refuses the credentials, which are wrong, expired or revoked; set new ones where the worker file " +
			"says they are"
	case says(err, forbidden, "archived", "is locked", "access blocked", "disabled"):
		return failures.InvalidRequest, "it refuses that for good"
	case status == forbidden:
		return failures.Auth, "the credentials do not permit it; " + needs
	case status == http.StatusNotFound:
		return failures.InvalidRequest, "it does not exist, or the credentials may not see it; check the name, or " + needs
	}
	return failures.InvalidRequest, "it refuses the request"
}

// statuses of REST for the errors of GraphQL, which all come with 200.
var statuses = map[string]int{
	"FORBIDDEN": http.StatusForbidden, "INSUFFICIENT_SCOPES": http.StatusForbidden, "NOT_FOUND": http.StatusNotFound,
	"RATE_LIMITED": http.StatusTooManyRequests, "RATE_LIMIT": http.StatusTooManyRequests,
	"": http.StatusBadGateway, "INTERNAL": http.StatusBadGateway, "SERVICE_UNAVAILABLE": http.StatusBadGateway,
}

// query sends a query or a mutation to the GraphQL API. into gets the answer, also one that has errors beside it.
func (g *GitHub) query(ctx context.Context, text string, variables map[string]any, into any) error {
	req, err := g.api.NewRequest(ctx, http.MethodPost, g.graphql, map[string]any{"query": text, "variables": variables})
	if err != nil {
		return err
	}
	answer := struct {
		Data   any `json:"data"`
		Errors []struct {
			Type, Message string
			Extensions    struct{ Code string }
		}
	}{Data: into}
	resp, err := g.api.Do(req, &answer)
	if err != nil || len(answer.Errors) == 0 {
		return err
	}
	first := answer.Errors[0]
	status := cmp.Or(statuses[first.Type], http.StatusUnprocessableEntity)
	if first.Extensions.Code != "" { // the query is wrong for this version of GitHub
		status = http.StatusUnprocessableEntity
	}
	return &github.ErrorResponse{Response: &http.Response{StatusCode: status, Header: resp.Header}, Message: first.Message}
}
