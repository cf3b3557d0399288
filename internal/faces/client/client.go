package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/platform/retryafter"
)

const (
	// maxDocument bounds a document that is read, and maxProblem one that says what is wrong, in bytes.
	maxDocument = 64 << 20
	maxProblem  = 1 << 20
	// headerPatience is the longest wait for the beginning of an answer: some operations wait for a worker.
	headerPatience = 3 * time.Minute
	dialPatience   = 10 * time.Second
	// busyPatience is how long a request is repeated that a server takes later. A start that is under way
	// waits for a worker so long, and a little less.
	busyPatience = 45 * time.Second
)

// Options say which server is called, and as whom.
type Options struct {
	// URL is the server's address, like https://maestro.example.org.
	URL string
	// Token is one of `maestro token create`.
	Token string
	// PlainHTTP allows to send the token without encryption to another host.
	PlainHTTP bool
	// Version is the program's.
	Version string
	// Now tells the time.
	Now func() time.Time
}

// Client calls one server.
type Client struct {
	base, token, agent string
	now                func() time.Time
	http               *http.Client
}

// An OptionError says that no server can be called with the options.
type OptionError struct{ text string }

func (e *OptionError) Error() string { return e.text }

func optionErrorf(format string, args ...any) error {
	return &OptionError{fmt.Sprintf(format, args...)}
}

// An UnreachableError says that a server, or the Temporal that it works with, does not answer.
type UnreachableError struct {
	// URL is the server's.
	URL string
	Err error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("the Maestro server at %s cannot be reached: %s; check the address, and that `maestro serve` runs there",
		e.URL, cause(e.Err))
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// cause is the innermost text of a failed request: the outer ones repeat the address.
func cause(err error) string {
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err
	}
	return err.Error()
}

// New returns a client. It does not call the server yet.
func New(o Options) (*Client, error) {
	at, err := url.Parse(strings.TrimSuffix(strings.TrimRight(o.URL, "/"), httpapi.Prefix))
	switch {
	case err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.Path != "" || at.RawQuery != "" ||
		at.Fragment != "" || at.User != nil:
		return nil, optionErrorf("%q is not the address of a server; give it like https://maestro.example.org or http://127.0.0.1:8234",
			o.URL)
	case o.Token == "" || strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, optionErrorf("no token for %s: set MAESTRO_TOKEN, or give --token-file; `maestro token create` makes one on the "+
			"server's host", at)
	case at.Scheme == "http" && !loopback(at.Hostname()) && !o.PlainHTTP:
		return nil, optionErrorf("the token would be sent to %s without encryption; use https, or give --plain-http if the network "+
			"is trusted", at.Host)
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialPatience}).DialContext,
		TLSHandshakeTimeout:   dialPatience,
		ResponseHeaderTimeout: headerPatience, MaxResponseHeaderBytes: 256 << 10, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
	}
	return &Client{
		base: at.String(), token: o.Token, agent: "maestro/" + o.Version, now: o.Now,
		http: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// URL is the server's address.
func (c *Client) URL() string { return c.base }

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// request is a request of an operation.
type request struct {
	method, path string
	query        url.Values
	// body makes the body, for each try anew; nil: there is none.
	body func() (io.Reader, error)
	kind string
}

// do sends a request until it is answered, at most so often or so long, and returns the answer if it is
// a success. A change has one key for all tries, by which the server makes it once.
func (c *Client) do(ctx context.Context, in request) (*http.Response, error) {
	key := ""
	if in.method != http.MethodGet {
		key = rand.Text()
	}
	tries, waited := 0, time.Duration(0)
	for {
		got, err := c.send(ctx, in, key)
		var wait time.Duration
		var away *UnreachableError
		var busy *BusyError
		switch {
		case ctx.Err() != nil:
			err = ctx.Err()
		case errors.As(err, &away):
			wait = pauses[min(tries, len(pauses)-1)]
		case err != nil: // of what is sent
		case got.StatusCode < http.StatusMultipleChoices:
			return got, nil
		default:
			wait, err = c.failed(got)
		}
		again := tries < len(pauses)
		if errors.As(err, &busy) {
			again = waited+wait <= busyPatience
		} else {
			tries++
		}
		if wait == 0 || !again {
			return nil, err
		}
		if !retryafter.Wait(ctx, wait) {
			return nil, ctx.Err()
		}
		waited += wait
	}
}

// pauses are those between tries.
var pauses = []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond}

func (c *Client) send(ctx context.Context, in request, key string) (*http.Response, error) {
	var body io.Reader
	if in.body != nil {
		var err error
		if body, err = in.body(); err != nil {
			return nil, err
		}
	}
	at := c.base + httpapi.Prefix + in.path
	if len(in.query) > 0 {
		at += "?" + in.query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, in.method, at, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set("User-Agent", c.agent)
	if in.kind != "" {
		r.Header.Set("Content-Type", in.kind)
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	sent := &remembering{}
	if r.Body != nil {
		sent.ReadCloser, r.Body = r.Body, sent
	}
	got, err := c.http.Do(r)
	if failed := sent.failed.Load(); err != nil && failed != nil {
		return nil, *failed
	}
	if err != nil {
		return nil, &UnreachableError{URL: c.base, Err: err}
	}
	return got, nil
}

// remembering is the body of a request or an answer, which remembers why it cannot be read.
type remembering struct {
	io.ReadCloser
	failed atomic.Pointer[error]
}

func (b *remembering) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) { // the transport closes what it needs no more
		b.failed.Store(&err)
	}
	return n, err
}
