package llm

import (
	"errors"
	"io"
	"net/http"
)

const (
	// maxAnswer bounds the body of an answer, and maxErrorBody that of an error, in bytes.
	maxAnswer    = 64 << 20
	maxErrorBody = 64 << 10
)

// meter is a transport that reports all received data, including data without content, and bounds
// the size of an answer.
type meter struct {
	next  http.RoundTripper
	alive func()
}

// RoundTrip sends a request.
func (m meter) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := m.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	m.alive()
	body := &meteredBody{body: response.Body, alive: m.alive, left: maxAnswer}
	if response.StatusCode >= http.StatusBadRequest {
		body.left, body.quiet = maxErrorBody, true
	}
	response.Body = body
	return response, nil
}

// meteredBody is the body of an answer.
type meteredBody struct {
	body  io.ReadCloser
	alive func()
	left  int64
	// quiet: data past the bound is dropped without an error.
	quiet bool
}

var errTooLong = errors.New("response too large")

// Read reads the next part.
func (b *meteredBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		if b.quiet {
			return 0, io.EOF
		}
		return 0, errTooLong
	}
	n, err := b.body.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if n > 0 {
		b.alive()
	}
	return n, err
}

// Close closes the body.
func (b *meteredBody) Close() error { return b.body.Close() }
