package issues

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/httpclient"
	"github.com/maestro-hive/maestro/internal/platform/retryafter"
)

const (
	timeout = 30 * time.Second
	// maxAnswer bounds what is read of an answer, and maxMessage what is repeated of an error, in bytes.
	maxAnswer  = 32 << 20
	maxMessage = 300
)

// Issue is what an issue says.
type Issue struct {
	Title string
	// Text is a requirement: title, text and comments.
	Text string
	// Comments is how many comments are in the text. LeftOut says which are not; empty if all are.
	Comments int
	LeftOut  string
}

// post is an issue or a comment in the JSON of both forges.
type post struct {
	Title       string `json:"title"`
	Body        string `json:"body"`        // of a comment, and of GitHub's issues
	Description string `json:"description"` // of GitLab's issues
	CreatedAt   string `json:"created_at"`
	User        struct {
		Login string `json:"login"`
	} `json:"user"` // GitHub
	Author struct {
		Username string `json:"username"`
	} `json:"author"` // GitLab
	// Comments and Notes count those of an issue.
	Comments int `json:"comments"`
	Notes    int `json:"user_notes_count"`
	// System is true for what GitLab notes of an issue by itself.
	System bool `json:"system"`
}

// client reads one issue.
type client struct {
	Address
	http *http.Client
	now  func() time.Time
	// token came from the variable tokenEnv; both are empty if there is none for the site.
	token, tokenEnv string
}

// Fetch reads an issue. getenv reads the environment. The error is a [*session.TicketTrouble].
func Fetch(ctx context.Context, a Address, getenv func(string) string, now func() time.Time) (Issue, error) {
	c := client{Address: a, now: now, http: &http.Client{Timeout: timeout, CheckRedirect: httpclient.SameSite}}
	for _, name := range a.forge.tokenEnv {
		if c.token == "" && a.isTrusted(getenv) && getenv(name) != "" {
			c.token, c.tokenEnv = getenv(name), name
		}
	}
	var issue post
	if err := c.get(ctx, a.api(), &issue); err != nil {
		return Issue{}, err
	}
	count := max(issue.Comments, issue.Notes)
	comments, err := c.readComments(ctx, count)
	refused, ok := errors.AsType[*session.TicketTrouble](err)
	unread := ok && refused.Kind == session.Gone && c.token == ""
	if err != nil && !unread {
		return Issue{}, err
	}
	out := textOf(a, issue, comments)
	switch left := max(count, len(comments)) - out.Comments; {
	case unread:
		out.LeftOut = "comments, which are not given without a token; " + c.advice()
	case left > 0:
		out.LeftOut = textfmt.Count(left, "older comment")
	}
	return out, nil
}

// readComments reads the newest comments of an issue that has a number of them, in their order.
func (c *client) readComments(ctx context.Context, count int) (all []post, err error) {
	if count == 0 {
		return nil, nil
	}
	for _, page := range c.comments(count) {
		var some []post
		if err := c.get(ctx, page, &some); err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	if c.forge == gitlab {
		slices.Reverse(all)
	}
	return slices.DeleteFunc(all, func(p post) bool { return p.System || strings.TrimSpace(p.Body) == "" }), nil
}

// textOf makes the text. The newest comments that fit are taken.
func textOf(a Address, issue post, comments []post) Issue {
	out := Issue{Title: safetext.Line(issue.Title)}
	var said []safetext.Comment
	for _, p := range comments {
		said = append(said, safetext.Comment{By: p.User.Login + p.Author.Username, Date: p.CreatedAt, Text: p.Body})
	}
	quoted, taken := safetext.Comments(said)
	out.Comments = taken
	out.Text = fmt.Sprintf("# %s\n\n%s\n\nThis is issue %s.\n%s", out.Title,
		strings.TrimSpace(safetext.Block(issue.Body+issue.Description)), a, quoted)
	return out
}

// get reads what the API has at an address.
func (c *client) get(ctx context.Context, address string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return c.trouble(session.Misconfigured, "%s", err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "maestro")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.trouble(session.Unreached, "%s cannot be reached: %s", req.URL.Host, errors.Unwrap(err)) // without the address
	}
	defer resp.Body.Close() //nolint:errcheck // it is only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return c.trouble(session.Unreached, "the answer of %s has no end: %s; try again", req.URL.Host, err)
	case resp.StatusCode != http.StatusOK:
		return c.refused(resp, body)
	case len(body) > maxAnswer:
		return c.trouble(session.Misconfigured, "the answer is larger than %d MiB; write the requirement into a file", maxAnswer>>20)
	case json.Unmarshal(body, into) != nil:
		return c.trouble(session.Misconfigured, "%s does not answer like the API of %s; write the requirement into a file",
			req.URL.Host, c.forge.name)
	}
	return nil
}

// refused says why there is no answer, and what to do.
func (c *client) refused(resp *http.Response, body []byte) error {
	var stated struct {
		Message any `json:"message"`
	}
	_ = json.Unmarshal(body, &stated)
	message := ""
	if text, ok := stated.Message.(string); ok {
		message = ": " + safetext.Clip(text, maxMessage)
	}
	wait := retryafter.Parse(resp.Header, c.now())
	switch status := resp.StatusCode; {
	case status == http.StatusTooManyRequests, status == http.StatusForbidden && wait > 0:
		when := "later"
		if wait > 0 {
			when = "in " + wait.Round(time.Second).String()
		}
		t := c.trouble(session.Unreached, "%s takes no more requests for now (%d%s); try again %s%s", c.forge.name, status, message,
			when, c.orAdvice())
		t.RetryAfter = textfmt.Duration(wait)
		return t
	case status == http.StatusUnauthorized && c.token != "":
		return c.trouble(session.Misconfigured, "%s refuses the token in %s (%d%s); set it to one that is valid", c.forge.name,
			c.tokenEnv, status, message)
	case status == http.StatusUnauthorized, (status == http.StatusNotFound || status == http.StatusForbidden) && c.token == "":
		return c.trouble(session.Gone, "it does not exist, or may not be seen without a token (%d); %s", status, c.advice())
	case status == http.StatusNotFound, status == http.StatusGone:
		return c.trouble(session.Gone, "it does not exist, or may not be seen with the token in %s (%d%s)", c.tokenEnv, status, message)
	case status == http.StatusForbidden:
		return c.trouble(session.Gone, "it may not be seen with the token in %s (%d%s)", c.tokenEnv, status, message)
	case status >= 500:
		return c.trouble(session.Unreached, "%s fails (%d%s); try again", c.forge.name, status, message)
	}
	return c.trouble(session.Misconfigured, "%s answers with %d%s", resp.Request.URL.Host, resp.StatusCode, message)
}

// advice says how to give a token for the site.
func (c *client) advice() string {
	if c.url.Host == c.forge.host {
		return "set " + strings.Join(c.forge.tokenEnv, " or ")
	}
	return fmt.Sprintf("set %s, and %s to %s, because a token is sent to no other site", strings.Join(c.forge.tokenEnv, " or "),
		c.forge.hostEnv, c.url.Host)
}

// orAdvice is the advice to those who have no token: their limits are low.
func (c *client) orAdvice() string {
	if c.token != "" {
		return ""
	}
	return ", or " + c.advice()
}

func (c *client) trouble(kind session.TroubleKind, format string, args ...any) *session.TicketTrouble {
	return &session.TicketTrouble{Kind: kind, Message: fmt.Sprintf("issue %s: ", c.Address) + fmt.Sprintf(format, args...)}
}
