// Package httpclient is what the clients of other systems have in common: bounded answers, redirects that stay where they were
// sent to, and the reason for which there is no answer.
package httpclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Bounded is a transport whose answers end with an [*http.MaxBytesError] after a number of bytes.
type Bounded struct {
	http.RoundTripper
	Limit int64
}

// RoundTrip sends a request.
func (t Bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, t.Limit)
	}
	return resp, err
}

// SameSite follows a redirect that stays with its host and protocol and keeps the method, as of what was renamed. Otherwise the
// redirect is the answer.
func SameSite(req *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > 5 || req.URL.Host != first.URL.Host || req.URL.Scheme != first.URL.Scheme || req.Method != first.Method {
		return http.ErrUseLastResponse
	}
	return nil
}

// NoAnswer says why a request has got no usable answer, without its address, which may be a secret. timeout is the client's.
func NoAnswer(err error, timeout time.Duration) string {
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var late net.Error
	var network *net.OpError
	var request *url.Error
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &dns):
		return "the name of its host cannot be resolved; check the address in the worker file and the network"
	case errors.As(err, &cert):
		return "its certificate is not trusted; add its certificate authority to the worker's host"
	case errors.As(err, &long):
		return "its answer is longer than " + textfmt.Size(long.Limit)
	case errors.Is(err, context.Canceled):
		return "the worker is stopping"
	case errors.As(err, &late) && late.Timeout():
		return fmt.Sprintf("no answer within %s", textfmt.Duration(timeout))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return "the connection was closed"
	case errors.As(err, &network) && network.Err != nil:
		return network.Op + ": " + network.Err.Error()
	case errors.As(err, &request):
		return request.Err.Error()
	}
	return "its answer cannot be read: " + err.Error() + "; check the address in the worker file"
}
