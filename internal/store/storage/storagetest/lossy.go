package storagetest

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Lossy is a proxy before an HTTP server that does to requests what networks and overloaded servers do.
type Lossy struct {
	*httptest.Server
	target *url.URL
	// Percent is how many of a hundred requests are in trouble.
	Percent atomic.Int64
	// Requests counts by method.
	mu       sync.Mutex
	requests map[string]int
	// late are requests that are delivered once more.
	late sync.WaitGroup
}

// NewLossy starts a proxy before the server at an address.
func NewLossy(t *testing.T, address string) *Lossy {
	t.Helper()
	l := &Lossy{target: &url.URL{Scheme: "http", Host: address}, requests: map[string]int{}}
	l.Server = httptest.NewServer(l)
	t.Cleanup(func() { l.late.Wait(); l.Close() })
	return l
}

// Requests are the numbers of requests by method since the last call.
func (l *Lossy) Requests() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.requests
	l.requests = map[string]int{}
	return was
}

// ServeHTTP implements [http.Handler].
func (l *Lossy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.requests[r.Method]++
	l.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	trouble := -1
	if rand.Int64N(100) < l.Percent.Load() { //nolint:gosec // any will do
		trouble = rand.IntN(9) //nolint:gosec // any will do
	}
	switch trouble {
	case 0: // the request is lost
		panic(http.ErrAbortHandler)
	case 1, 2, 3, 4: // it is refused
		w.WriteHeader(map[int]int{1: 500, 2: 503, 3: 429, 4: 409}[trouble])
		return
	case 5: // it is cut on its way
		_, _ = l.send(r, body[:len(body)/2], len(body))
		panic(http.ErrAbortHandler)
	case 6: // it is repeated some time later, whatever has happened meanwhile
		again := r.Clone(context.Background())
		l.late.Go(func() {
			time.Sleep(time.Duration(rand.Int64N(int64(5 * time.Second)))) //nolint:gosec,forbidigo // it is late
			if answer, err := l.send(again, body, len(body)); err == nil {
				_ = answer.Body.Close()
			}
		})
	}
	answer, err := l.send(r, body, len(body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(answer.Body)
	if err != nil || trouble == 7 { // the answer is lost
		panic(http.ErrAbortHandler)
	}
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	if r.Method != http.MethodHead {
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	}
	w.WriteHeader(answer.StatusCode)
	if trouble == 8 { // the answer is cut
		_, _ = w.Write(data[:len(data)/2])
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(data)
}

// send sends a request as it came, with so many bytes announced.
func (l *Lossy) send(r *http.Request, body []byte, length int) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host = l.target.Scheme, l.target.Host // the host of the header stays, which is signed
	out.RequestURI = ""
	out.ContentLength = int64(length)
	out.Body = io.NopCloser(bytes.NewReader(body))
	if length == 0 {
		out.Body = http.NoBody
	}
	return http.DefaultTransport.RoundTrip(out)
}
