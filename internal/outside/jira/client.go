package jira

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	gojira "github.com/andygrunwald/go-jira"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/platform/httpclient"
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
	config.Timeout = cmp.Or(config.Timeout, defaultTimeout)
	base, err := url.Parse(strings.TrimRight(config.URL, "/") + "/")
	if err != nil || base.Host == "" {
		return nil, &session.TicketTrouble{
			Kind:    session.Misconfigured,
			Message: "jira.url is not a URL; write it in full, like https://example.atlassian.net",
		}
	}
	c := &Client{config: config, base: base}
	if config.Token == "" || config.Deployment != DataCenter && config.Email == "" {
		return nil, c.misconfigured("the credentials are incomplete; set %s in the worker's environment, as named by jira in the "+
			"worker file", c.expected())
	}
	c.files = &http.Client{CheckRedirect: c.redirected}
	c.api, err = gojira.NewClient(&http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, base.String())
	return c, err
}

// authorize adds the credentials to a request.
func (c *Client) authorize(req *http.Request) {
	req.Header.Set("User-Agent", "maestro")
	if c.config.Deployment == DataCenter {
		req.Header.Set("Authorization", "Bearer "+c.config.Token)
	} else {
		req.SetBasicAuth(c.config.Email, c.config.Token)
	}
}

// redirected lets a download be redirected, with the credentials only within the configured site.
func (c *Client) redirected(req *http.Request, via []*http.Request) error {
	if len(via) > 10 {
		return errors.New("too many redirects")
	}
	if !c.onSite(req.URL) {
		req.Header.Del("Authorization")
	}
	return nil
}

// onSite reports whether an address is one of the configured site.
func (c *Client) onSite(u *url.URL) bool {
	return u.Scheme == c.base.Scheme && strings.EqualFold(u.Host, c.base.Host)
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
	// what completes the sentence "the request to ... failed".
	what   string
	method string
	path   string
	query  url.Values
	body   any
	// into gets the answer's JSON; nil if nothing of it is needed.
	into any
	// advice says what to check if Jira refuses, before the settings in the worker file; it ends with "; ".
	advice string
	// ofTicket: a ticket is gone if Jira does not find what the request is about.
	ofTicket bool
}

// do sends a request and reads its answer. Its error is a *session.TicketTrouble.
func (c *Client) do(ctx context.Context, k call) error {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	req, err := c.api.NewRequestWithContext(ctx, k.method, k.path+"?"+k.query.Encode(), k.body)
	if err != nil {
		return c.misconfigured("the request to %s failed: %s", k.what, err)
	}
	c.authorize(req)
	req.Header.Set("Accept", "application/json")
	resp, err := c.api.Do(req, nil)
	if resp == nil {
		return c.lost(k, httpclient.NoAnswer(err, c.config.Timeout), sent.Load())
	}
	defer resp.Body.Close() //nolint:errcheck // It was only read.
	body, err := c.read(k, resp.Response)
	if err != nil || k.into == nil {
		return err
	}
	if json.Unmarshal(body, k.into) != nil {
		return c.lost(k, "the answer is not that of Jira's API", true)
	}
	return nil
}

// read reads an answer to its end, and returns a *session.TicketTrouble unless Jira has done what it was asked.
func (c *Client) read(k call, resp *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, c.lost(k, httpclient.NoAnswer(err, c.config.Timeout), true)
	}
	if trouble := c.checkResponse(k, resp.StatusCode, resp.Header, body); trouble != nil {
		return nil, trouble
	}
	return body, nil
}
