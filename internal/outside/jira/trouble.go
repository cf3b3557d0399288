package jira

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	gojira "github.com/andygrunwald/go-jira"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/retryafter"
)

// maxMessage bounds what is repeated of what Jira says, in bytes.
const maxMessage = 600

// trouble is an error that names Jira, without the credentials.
func (c *Client) trouble(kind session.TroubleKind, format string, args ...any) *session.TicketTrouble {
	message := "Jira at " + c.base.Host + ": " + fmt.Sprintf(format, args...)
	if c.config.Token != "" {
		message = strings.ReplaceAll(message, c.config.Token, "***")
	}
	return &session.TicketTrouble{Kind: kind, Message: message}
}

// misconfigured is the trouble that somebody has to fix.
func (c *Client) misconfigured(format string, args ...any) *session.TicketTrouble {
	return c.trouble(session.Misconfigured, format, args...)
}

// lost is the trouble of a request that has got no usable answer, and why. sent: Jira may have received it.
func (c *Client) lost(k call, why string, sent bool) *session.TicketTrouble {
	if sent && k.method != http.MethodGet {
		return c.trouble(session.Unclear, "no usable answer to the request to %s: %s; it may have been executed", k.what, why)
	}
	return c.trouble(session.Unreached, "the request to %s failed: %s", k.what, why)
}

// checkResponse returns what is wrong with an answer; nil if Jira has done what it was asked.
func (c *Client) checkResponse(k call, status int, header http.Header, body []byte) *session.TicketTrouble {
	login := strings.ToUpper(header.Get("X-Seraph-LoginReason") + header.Get("X-Authentication-Denied-Reason"))
	page := strings.HasPrefix(header.Get("Content-Type"), "text/html")
	switch {
	case strings.Contains(login, "AUTHENTICATION_DENIED"), strings.Contains(login, "CAPTCHA"):
		return c.misconfigured("it requires a CAPTCHA for the account of %s after too many failed logins (%d); "+
			"log in once with a browser, then check the values of these variables", c.credentials(), status)
	case status == http.StatusUnauthorized, strings.Contains(login, "AUTHENTICATED_FAILED"):
		// It may serve a request as nobody's, with any status.
		return c.misconfigured("it refused the credentials in %s (%d); set %s, and restart the worker", c.credentials(), status,
			c.expected())
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable && header.Get("Retry-After") != "":
		// Jira does not always say what remains.
		wait := cmp.Or(retryafter.Parse(header, c.config.Now()), retryafter.Value(header.Get("X-RateLimit-Reset"), c.config.Now()))
		t := c.trouble(session.Unreached, "it requires a wait before the request to %s (%d)", k.what, status)
		t.RetryAfter = textfmt.Duration(wait)
		return t
	case status >= 500:
		return c.lost(k, fmt.Sprintf("status %d %s", status, http.StatusText(status)), true)
	case page, status >= 300 && status < 400:
		target, _, _ := strings.Cut(header.Get("Location"), "?") // the query may have secrets
		return c.misconfigured("a web page or a redirect (%d %s) answers the request to %s; set Jira's own address with its path in "+
			"jira.url, "+
			"check jira.deployment, which is %s, and let the worker bypass a single sign-on or proxy in front of it",
			status, textfmt.Shorten(target, maxMessage), k.what, c.config.Deployment)
	case status < 300:
		return nil
	}
	kind := session.Misconfigured
	if k.ofTicket && status == http.StatusNotFound {
		kind = session.Gone
	}
	return c.trouble(kind, "the account of %s cannot %s (%d %s): %s; %scheck jira.url and jira.deployment, which is %s, in the "+
		"worker file",
		c.credentials(), k.what, status, http.StatusText(status), message(body), k.advice, c.config.Deployment)
}

// message is what Jira says of an error, in one short line.
func message(body []byte) string {
	var stated struct {
		gojira.Error
		Message      string `json:"message"`
		ErrorMessage string `json:"errorMessage"`
	}
	if json.Unmarshal(body, &stated) != nil {
		stated.Message = string(body)
	}
	parts := append(stated.ErrorMessages, stated.Message, stated.ErrorMessage)
	for _, field := range slices.Sorted(maps.Keys(stated.Errors)) {
		parts = append(parts, field+": "+stated.Errors[field])
	}
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	return strconv.Quote(textfmt.Shorten(strings.Join(strings.Fields(strings.Join(parts, "; ")), " "), maxMessage))
}

// credentials names the variables that hold the credentials.
func (c *Client) credentials() string {
	if c.config.Deployment == DataCenter {
		return c.config.TokenEnv
	}
	return c.config.EmailEnv + " and " + c.config.TokenEnv
}

// expected says what the variables should hold.
func (c *Client) expected() string {
	if c.config.Deployment == DataCenter {
		return fmt.Sprintf("%s to a personal access token that has not expired", c.config.TokenEnv)
	}
	return fmt.Sprintf("%s to an account's email address and %s to an API token of that account that has not expired",
		c.config.EmailEnv, c.config.TokenEnv)
}
