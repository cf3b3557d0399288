package jira

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	gojira "github.com/andygrunwald/go-jira"

	"github.com/maestro-hive/maestro/internal/retryafter"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// maxSaid bounds what is repeated of what Jira says.
const maxSaid = 400

// refusal is an answer that says no, in Jira's own words.
type refusal struct {
	status   int
	messages []string
	fields   map[string]string
}

// said is the refusal in one line.
func (r refusal) said() string {
	parts := slices.Clone(r.messages)
	for _, field := range slices.Sorted(maps.Keys(r.fields)) {
		parts = append(parts, field+": "+r.fields[field])
	}
	if len(parts) == 0 {
		return fmt.Sprintf("(%d %s)", r.status, http.StatusText(r.status))
	}
	return fmt.Sprintf("(%d): %s", r.status, quoted(strings.Join(parts, "; ")))
}

// quoted is foreign text in one short line.
func quoted(text string) string {
	return strconv.Quote(textfmt.Shorten(strings.Join(strings.Fields(text), " "), maxSaid))
}

// lost is the trouble of a request that was not answered. sent says that Jira may
// have got it.
func (c *Client) lost(k call, err error, sent bool) *session.TicketTrouble {
	why := c.why(err)
	if sent && k.method != http.MethodGet {
		return &session.TicketTrouble{
			Kind:    session.Unclear,
			Message: fmt.Sprintf("Jira at %s: no usable answer to the request to %s: %s; it may have been executed", c.base.Host, k.what, why),
		}
	}
	return &session.TicketTrouble{
		Kind:    session.Unreached,
		Message: fmt.Sprintf("Jira at %s: request to %s failed: %s", c.base.Host, k.what, why),
	}
}

// why says why there was no answer, without the request's address.
func (c *Client) why(err error) string {
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.As(err, &dns):
		return fmt.Sprintf("the name %s cannot be resolved; check jira.url in the worker file and the network", dns.Name)
	case errors.As(err, &cert):
		return fmt.Sprintf("its certificate is not trusted (%s); add its certificate authority to the worker's host", cert.Err)
	case errors.Is(err, context.Canceled):
		return "the worker is stopping"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return "the connection was closed"
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("no answer within %s", textfmt.Duration(c.config.Timeout))
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		err = inner                          // the innermost says what happened, those around it where
		if _, ok := err.(*net.OpError); ok { //nolint:errorlint // The chain is walked here.
			break
		}
	}
	return c.masked(err.Error())
}

// masked takes the credentials out of a text that comes from outside.
func (c *Client) masked(text string) string {
	if c.config.Token != "" {
		text = strings.ReplaceAll(text, c.config.Token, "***")
	}
	return text
}

// judge returns what is wrong with an answer; nil: it is what was asked for.
func (c *Client) judge(k call, a answer) *session.TicketTrouble {
	if trouble := c.credentialsRefused(a); trouble != nil {
		return trouble
	}
	switch {
	case a.status == http.StatusTooManyRequests,
		a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") != "":
		wait := retryAfter(a.header, c.config.Now())
		return &session.TicketTrouble{
			Kind: session.Unreached, RetryAfter: wait,
			Message: fmt.Sprintf("Jira at %s requires a wait of %s before the request to %s (%d)", c.base.Host, waitText(wait), k.what, a.status),
		}
	case a.status >= 500:
		return c.lost(k, fmt.Errorf("status %d %s%s", a.status, http.StatusText(a.status), c.masked(page(a))), true)
	case a.status >= 300 && a.status < 400:
		return misconfigured("%s redirects (%d) to %s on the request to %s; set Jira's own address in jira.url, and let the worker bypass a single sign-on in front of it",
			c.base.Host, a.status, c.masked(place(a)), k.what)
	case a.html() && a.status == http.StatusNotFound:
		return misconfigured("%s has no Jira API to %s (404%s); check jira.url with its path, and jira.deployment, which is %s",
			c.base.Host, k.what, c.masked(page(a)), c.config.Deployment)
	case a.html():
		return misconfigured("%s answers with a web page (%d%s) on the request to %s; a proxy or a single sign-on in front of Jira has answered: set Jira's own address in jira.url, and let the worker bypass it",
			c.base.Host, a.status, c.masked(page(a)), k.what)
	case a.status >= 200 && a.status < 300:
		return nil
	}
	r := c.refusal(a)
	if k.refused != nil {
		if trouble := k.refused(r); trouble != nil {
			return trouble
		}
	}
	return c.refused(k, r)
}

// refused says what a refusal means whatever was asked.
func (c *Client) refused(k call, r refusal) *session.TicketTrouble {
	if r.status == http.StatusForbidden {
		return misconfigured("Jira at %s does not allow the account of %s to %s %s; grant it the permission", c.base.Host, c.credentials(), k.what, r.said())
	}
	return misconfigured("Jira at %s refuses to %s %s; check jira.url and jira.deployment (%s) in the worker file, and help.jira in the team file",
		c.base.Host, k.what, r.said(), c.config.Deployment)
}

// credentialsRefused recognises that Jira does not know who asks. It then may
// serve a request as nobody's, with any status.
func (c *Client) credentialsRefused(a answer) *session.TicketTrouble {
	reasons := strings.ToUpper(strings.Join(a.header.Values("X-Seraph-LoginReason"), ","))
	denied := a.header.Get("X-Authentication-Denied-Reason")
	switch {
	case strings.Contains(strings.ToUpper(denied), "CAPTCHA") || strings.Contains(reasons, "AUTHENTICATION_DENIED"):
		return misconfigured("Jira at %s requires a CAPTCHA for the account of %s after too many failed logins (%d); log in once with a browser, then check the values of these variables",
			c.base.Host, c.credentials(), a.status)
	case a.status == http.StatusUnauthorized || strings.Contains(reasons, "AUTHENTICATED_FAILED"):
		said := ""
		if !a.html() {
			if r := c.refusal(a); len(r.messages) > 0 {
				said = ": " + quoted(strings.Join(r.messages, "; "))
			}
		}
		return misconfigured("Jira at %s refused the credentials in %s (%d)%s; set %s, and restart the worker",
			c.base.Host, c.credentials(), a.status, said, c.wanted())
	}
	return nil
}

// credentials names the variables that hold the credentials.
func (c *Client) credentials() string {
	if c.config.Deployment == DataCenter {
		return c.config.TokenEnv
	}
	return c.config.EmailEnv + " and " + c.config.TokenEnv
}

// wanted says what the variables should hold.
func (c *Client) wanted() string {
	if c.config.Deployment == DataCenter {
		return fmt.Sprintf("%s to a personal access token that has not expired", c.config.TokenEnv)
	}
	return fmt.Sprintf("%s to an account's email address and %s to an API token of that account that has not expired", c.config.EmailEnv, c.config.TokenEnv)
}

// unset lists the variables of the credentials that hold nothing.
func (c *Client) unset() []string {
	var missing []string
	if c.config.Deployment != DataCenter && c.config.Email == "" {
		missing = append(missing, c.config.EmailEnv)
	}
	if c.config.Token == "" {
		missing = append(missing, c.config.TokenEnv)
	}
	return missing
}

func isOrAre(names []string) string {
	if len(names) == 1 {
		return names[0] + " is"
	}
	return strings.Join(names, " and ") + " are"
}

// refusal reads Jira's error body, or what there is instead of it.
func (c *Client) refusal(a answer) refusal {
	var said struct {
		gojira.Error
		Message      string `json:"message"`
		ErrorMessage string `json:"errorMessage"`
	}
	r := refusal{status: a.status}
	if err := json.Unmarshal(a.body, &said); err != nil {
		if text := strings.TrimSpace(string(a.body)); text != "" {
			r.messages = []string{c.masked(text)}
		}
		return r
	}
	for _, m := range append(said.ErrorMessages, said.Message, said.ErrorMessage) {
		if m != "" {
			r.messages = append(r.messages, c.masked(m))
		}
	}
	r.fields = map[string]string{}
	for field, m := range said.Errors {
		r.fields[c.masked(field)] = c.masked(m)
	}
	return r
}

var pageTitle = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

// page is the title of a web page, as a message continues.
func page(a answer) string {
	if !a.html() {
		return ""
	}
	if m := pageTitle.FindSubmatch(a.body); m != nil {
		return ", " + quoted(html.UnescapeString(string(m[1])))
	}
	return ", a web page"
}

// place is where a redirect leads, without what may be secret in it.
func place(a answer) string {
	to, _, _ := strings.Cut(a.header.Get("Location"), "?")
	if to == "" {
		return "nowhere"
	}
	return textfmt.Shorten(to, maxSaid)
}

// retryAfter returns the wait that an answer requires; zero if it states none.
func retryAfter(h http.Header, now time.Time) textfmt.Duration {
	wait := retryafter.Parse(h, now)
	if wait == 0 { // Jira does not always say what remains
		wait = retryafter.Value(h.Get("X-RateLimit-Reset"), now)
	}
	return textfmt.Duration(wait)
}

func waitText(wait textfmt.Duration) string {
	if wait == 0 {
		return "a while"
	}
	return wait.String()
}
