package codehost

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// The bounds of cached answers, in bytes.
const (
	maxCachedAnswer = 2 << 20
	maxCache        = 8 << 20
)

// githubTransport adds the credentials to requests, bounds answers, and asks only for what has changed: an answer that is
// the same costs nothing of the rate limit.
type githubTransport struct {
	github *GitHub
	// host is the only one that gets credentials.
	host string
	next http.RoundTripper
	// skew is how far GitHub's clock is ahead of this one.
	skew atomic.Int64

	mu    sync.Mutex
	bytes int
	cache *simplelru.LRU[string, cachedAnswer]
}

// cachedAnswer is an answer by its address. At is for answers that have no tag.
type cachedAnswer struct {
	header http.Header
	body   []byte
	at     time.Time
}

func newGitHubTransport(g *GitHub, host string) *githubTransport {
	t := &githubTransport{github: g, host: host, next: http.DefaultTransport.(*http.Transport).Clone()}
	// It fails for sizes below 1 only.
	t.cache, _ = simplelru.NewLRU(maxCache, func(_ string, a cachedAnswer) { t.bytes -= a.size() })
	return t
}

// size is what an answer takes in memory, roughly.
func (a cachedAnswer) size() int { return len(a.body) + 2<<10 }

// now is the time by GitHub's clock.
func (g *GitHub) now() time.Time {
	return g.options.Clock().Add(time.Duration(g.transport.skew.Load()))
}

// RoundTrip sends a request. If GitHub refuses the token of an app, it is sent once more with a new one.
func (t *githubTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	key, held := req.URL.String()+" "+req.Header.Get("Accept"), cachedAnswer{}
	if req.Method == http.MethodGet {
		held = t.get(key)
	}
	resp, err := t.send(req, held.header.Get("Etag"))
	if err == nil && resp.StatusCode == http.StatusUnauthorized && t.github.key != nil {
		_ = resp.Body.Close()
		if req.Context().Value(asApp{}) == nil {
			t.github.forget(req.Context())
		}
		resp, err = t.send(req, held.header.Get("Etag"))
	}
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusNotModified && held.header != nil {
		_ = resp.Body.Close()
		return held.again(resp), nil
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, maxAnswer)
	isJSON := strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json")
	if req.Method == http.MethodGet && resp.StatusCode == http.StatusOK && resp.Header.Get("Etag") != "" && isJSON {
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			return nil, err
		}
		t.put(key, cachedAnswer{header: resp.Header, body: body})
		resp.Body = io.NopCloser(bytes.NewReader(body))
	}
	return resp, nil
}

// send sends a request with credentials, and reads GitHub's clock.
func (t *githubTransport) send(req *http.Request, tag string) (resp *http.Response, err error) {
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
	if tag != "" {
		out.Header.Set("If-None-Match", tag)
	}
	if resp, err = t.next.RoundTrip(out); err != nil {
		return nil, err
	}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		t.skew.Store(int64(date.Sub(t.github.options.Clock())))
	}
	return resp, nil
}

// again is the answer that was given before, with the headers of the one that says that it is the same.
func (a cachedAnswer) again(resp *http.Response) *http.Response {
	header := a.header.Clone()
	maps.Copy(header, resp.Header)
	resp.Status, resp.StatusCode, resp.Header = "200 OK", http.StatusOK, header
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(a.body)), int64(len(a.body))
	return resp
}

func (t *githubTransport) get(key string) cachedAnswer {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, _ := t.cache.Get(key)
	return a
}

func (t *githubTransport) put(key string, a cachedAnswer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cache.Remove(key)
	if len(a.body) <= maxCachedAnswer {
		t.bytes += a.size()
		t.cache.Add(key, a)
	}
	for t.bytes > maxCache {
		t.cache.RemoveOldest()
	}
}
