package codehost

import (
	"net/http"
	"sync/atomic"
	"time"
)

// githubTransport adds the credentials to requests.
type githubTransport struct {
	github *GitHub
	// host is the only one that gets credentials.
	host string
	next http.RoundTripper
	// skew is how far GitHub's clock is ahead of this one.
	skew atomic.Int64
}

// now is the time by GitHub's clock.
func (g *GitHub) now() time.Time {
	return g.options.Clock().Add(time.Duration(g.transport.skew.Load()))
}

// RoundTrip sends a request. If GitHub refuses the token of an app, it is sent once more with a new one.
func (t *githubTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.send(req)
	if err == nil && resp.StatusCode == http.StatusUnauthorized && t.github.key != nil {
		_ = resp.Body.Close()
		if req.Context().Value(asApp{}) == nil {
			t.github.forget(req.Context())
		}
		resp, err = t.send(req)
	}
	return resp, err
}

// send sends a request with credentials, and reads GitHub's clock.
func (t *githubTransport) send(req *http.Request) (resp *http.Response, err error) {
	out := req.Clone(req.Context())
	if out.GetBody != nil {
		if out.Body, err = out.GetBody(); err != nil {
			return nil, err
		}
	}
	if out.URL.Host == t.host {
		token, err := t.github.token(req.Context())
		if err != nil {
			return nil, err
		}
		out.Header.Set("Authorization", "Bearer "+token)
	}
	if resp, err = t.next.RoundTrip(out); err != nil {
		return nil, err
	}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		t.skew.Store(int64(date.Sub(t.github.options.Clock())))
	}
	return resp, nil
}
