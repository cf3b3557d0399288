package codehost

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

const (
	// maxAnswer bounds what is read of an answer, in bytes. A page of 100 comments of GitHub has at most 26 MB.
	maxAnswer = 32 << 20
	// perPage is the largest page that hosts give, and maxPages how many of one list are read.
	perPage  = 100
	maxPages = 10
)

// cut is a text of others with at most [delivery.MaxText] bytes.
func cut(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= delivery.MaxText {
		return text
	}
	note := fmt.Sprintf("\n[The text has %s. The rest is left out.]", textfmt.Size(int64(len(text))))
	return textfmt.Shorten(text, delivery.MaxText-len(note)) + note
}

// sameHost follows a redirect that stays on the host and keeps the method: a repository was renamed.
func sameHost(req *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > 5 || req.URL.Host != first.URL.Host || req.URL.Scheme != first.URL.Scheme || req.Method != first.Method {
		return http.ErrUseLastResponse
	}
	return nil
}

// webAddress reads the address of a host that gets credentials.
func webAddress(host, address string) (*url.URL, error) {
	web, err := url.Parse(strings.TrimRight(address, "/"))
	if err != nil || web.Hostname() == "" || web.User != nil || web.RawQuery != "" {
		return nil, fmt.Errorf("the address of %s is not a URL: write it in full, like https://git.example.com", host)
	}
	if web.Scheme != "https" && (web.Scheme != "http" || !net.ParseIP(web.Hostname()).IsLoopback()) {
		return nil, fmt.Errorf("the address of %s has to begin with https://, because credentials are sent there", host)
	}
	return web, nil
}

// noAnswer says why there was no usable answer, without the request's address. line makes a text of others a short line.
func noAnswer(err error, timeout time.Duration, line func(string) string) string {
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var late net.Error
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
	case errors.As(err, &request):
		return line(request.Err.Error())
	}
	return "its answer cannot be read: " + line(err.Error()) + "; check the address in the worker file"
}
