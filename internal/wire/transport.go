package wire

import (
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// Unsent marks the error of a call of which the provider has got nothing.
type Unsent struct{ Err error }

func (u Unsent) Error() string { return u.Err.Error() }

// Unwrap returns the error of the call.
func (u Unsent) Unwrap() error { return u.Err }

// Transport sends calls by another transport. Its error is [Unsent] if no header was sent: the name, the proxy or
// the server's certificate was not found to be right, or nobody has answered there.
type Transport struct{ http.RoundTripper }

// RoundTrip sends a call.
func (t Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}
	response, err := t.RoundTripper.RoundTrip(request.WithContext(httptrace.WithClientTrace(request.Context(), trace)))
	if err != nil && !sent.Load() {
		return nil, Unsent{err}
	}
	return response, err
}
