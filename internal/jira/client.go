package jira

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	gojira "github.com/andygrunwald/go-jira"

	"github.com/maestro-hive/maestro/internal/session"
)

// Deployment is the kind of a Jira, which decides its API.
type Deployment string

// The deployments.
const (
	Cloud      Deployment = "cloud"
	DataCenter Deployment = "datacenter"
)

// Config says where Jira is and who asks it.
type Config struct {
	// URL is the site's address, with the path that it is served under.
	URL        string
	Deployment Deployment
	// Email and Token are the account's on Cloud; on Data Center, Token is a
	// personal access token and there is no email.
	Email, Token string
	// EmailEnv and TokenEnv are the variables that those came from, for messages.
	EmailEnv, TokenEnv string
	// Timeout bounds one request, the reading of its answer included. Zero: 30 s.
	Timeout time.Duration
	// Now tells the time: Jira may ask to wait until one.
	Now func() time.Time
	// Transport is what requests go through; nil: one of its own.
	Transport http.RoundTripper
}

const (
	defaultTimeout = 30 * time.Second
	// downloadTimeouts is how many times longer a download may take than another
	// request.
	downloadTimeouts = 20
	// maxAnswer bounds what is read of an answer.
	maxAnswer = 32 << 20
)

// Client talks to one Jira. It may be used from several goroutines.
type Client struct {
	config Config
	base   *url.URL
	// api makes requests and does not follow redirects; files does.
	api   *gojira.Client
	files *http.Client
}

// New returns a client. It asks Jira nothing; an error is a *session.TicketTrouble on
// what is missing of the configuration.
func New(config Config) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(config.URL, "/") + "/")
	if err != nil || base.Host == "" {
		return nil, misconfigured("jira.url is not a URL; write it in full, like https://example.atlassian.net")
	}
	if config.Timeout <= 0 {
		config.Timeout = defaultTimeout
	}
	c := &Client{config: config, base: base}
	if missing := c.unset(); len(missing) > 0 {
		return nil, misconfigured("the credentials for %s are incomplete: %s not set in the worker's environment; set %s, as named by jira in the worker file",
			base.Host, isOrAre(missing), c.credentials())
	}
	transport := c.transport()
	c.files = &http.Client{Transport: transport}
	c.api, err = gojira.NewClient(&http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, base.String())
	if err != nil {
		return nil, misconfigured("jira.url is not a URL: %s", err)
	}
	return c, nil
}

// transport sends the credentials to the configured site and to nobody else,
// wherever a redirect leads.
func (c *Client) transport() http.RoundTripper {
	plain := c.config.Transport
	if plain == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.ResponseHeaderTimeout = c.config.Timeout
		plain = own
	}
	site := &siteTransport{site: c.base, elsewhere: plain}
	if c.config.Deployment == DataCenter {
		site.there = &gojira.PATAuthTransport{Token: c.config.Token, Transport: plain}
	} else {
		site.there = &gojira.BasicAuthTransport{Username: c.config.Email, Password: c.config.Token, Transport: plain}
	}
	return site
}

type siteTransport struct {
	site             *url.URL
	there, elsewhere http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *siteTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if sameSite(r.URL, t.site) {
		return t.there.RoundTrip(r)
	}
	return t.elsewhere.RoundTrip(r)
}

func sameSite(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Host, b.Host)
}

// Address is the page of a ticket for people.
func (c *Client) Address(key string) string {
	return c.base.JoinPath("browse", key).String()
}

// path is the address of a resource of the API, relative to the site's.
func (c *Client) path(parts ...string) string {
	p := "rest/api/2"
	for _, part := range parts {
		p += "/" + url.PathEscape(part)
	}
	return p
}

// call is one request of Jira's API.
type call struct {
	// what continues "Jira could not be asked to", for messages.
	what   string
	method string
	path   string
	query  url.Values
	body   any
	// into gets the answer's JSON; nil: it does not matter.
	into any
	// refused says what a refusal means that is not the same for every call; nil:
	// what it always means.
	refused func(refusal) *session.TicketTrouble
}

// do sends a request and reads its answer. Its error is a *session.TicketTrouble.
func (c *Client) do(ctx context.Context, k call) error {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	path := k.path
	if len(k.query) > 0 {
		path += "?" + k.query.Encode()
	}
	req, err := c.api.NewRequestWithContext(ctx, k.method, path, k.body)
	if err != nil {
		return misconfigured("Jira: request to %s failed: %s", k.what, err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "maestro")
	resp, err := c.api.Do(req, nil)
	if resp == nil {
		return c.lost(k, err, sent.Load())
	}
	defer resp.Body.Close() //nolint:errcheck // It was only read.
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return c.lost(k, err, true)
	}
	a := answer{status: resp.StatusCode, header: resp.Header, body: body}
	if trouble := c.judge(k, a); trouble != nil {
		return trouble
	}
	if k.into == nil {
		return nil
	}
	if err := json.Unmarshal(body, k.into); err != nil || len(body) > maxAnswer {
		return c.lost(k, errors.New("the answer is not that of Jira's API"), true)
	}
	return nil
}

// answer is an answer of Jira's, or of what stands in front of it.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// html reports whether the answer is a page for people.
func (a answer) html() bool {
	kind, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	return err == nil && (kind == "text/html" || kind == "application/xhtml+xml")
}

// misconfigured is the trouble that somebody has to fix.
func misconfigured(format string, args ...any) *session.TicketTrouble {
	return &session.TicketTrouble{Kind: session.Misconfigured, Message: fmt.Sprintf(format, args...)}
}
