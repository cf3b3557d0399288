package wire

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/maestro-hive/maestro/internal/secrets"
)

// Unsent marks the error of a call of which the provider has got nothing.
type Unsent struct{ Err error }

func (u Unsent) Error() string { return u.Err.Error() }

// Unwrap returns the error of the call.
func (u Unsent) Unwrap() error { return u.Err }

// Transport sends calls by another transport. Its error is [Unsent] if no header was sent: the name, the proxy or
// the server's certificate was not found to be right, or nobody has answered there. The body of an answer
// is decompressed.
type Transport struct {
	http.RoundTripper
	// Key, if not nil, is replaced in the header and the body of an answer: a provider may repeat it.
	Key *secrets.Set
}

// RoundTrip sends a call.
func (t Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}
	response, err := t.RoundTripper.RoundTrip(request.WithContext(httptrace.WithClientTrace(request.Context(), trace)))
	if err != nil && !sent.Load() {
		return nil, Unsent{err}
	}
	if err == nil {
		decompress(response)
		t.mask(response)
	}
	return response, err
}

func (t Transport) mask(response *http.Response) {
	if t.Key == nil {
		return
	}
	for _, values := range response.Header {
		for i, v := range values {
			values[i] = t.Key.Mask(v)
		}
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{t.Key.Reader(response.Body), response.Body}
}

// maxZstdWindow bounds the memory of a decoder for zstd: RFC 8878 recommends to support 8 MB.
const maxZstdWindow = 8 << 20

// decompress replaces the body of an answer by its content. Servers and edges compress answers also if they are
// asked not to. The reader of the body bounds what it becomes.
func decompress(response *http.Response) {
	var encodings []string
	for _, value := range response.Header.Values("Content-Encoding") {
		for one := range strings.SplitSeq(value, ",") {
			if one = strings.ToLower(strings.TrimSpace(one)); one != "" && one != "identity" {
				encodings = append(encodings, one)
			}
		}
	}
	if len(encodings) == 0 {
		return
	}
	slices.Reverse(encodings) // the last one was applied last
	body := &decodedBody{Closer: response.Body, from: response.Body, encodings: encodings}
	response.Body = body
	response.Header.Del("Content-Encoding")
	response.Header.Del("Content-Length")
	response.ContentLength = -1
}

// decodedBody is a body that is decoded while it is read. Decoders are made at the first read, because
// some read the beginning then.
type decodedBody struct {
	io.Closer
	from      io.Reader
	encodings []string
}

// Read reads the next part of the content.
func (b *decodedBody) Read(p []byte) (int, error) {
	for len(b.encodings) > 0 {
		if len(b.encodings) > maxEncodings {
			return 0, errors.New("the answer is compressed too often")
		}
		reader, err := decoder(b.encodings[0], b.from)
		if err != nil {
			return 0, fmt.Errorf("the answer is compressed (%.20s), and cannot be read: %w", b.encodings[0], err)
		}
		b.from, b.encodings = reader, b.encodings[1:]
	}
	return b.from.Read(p)
}

// maxEncodings bounds the decoders of one body.
const maxEncodings = 3

func decoder(encoding string, from io.Reader) (io.Reader, error) {
	switch encoding {
	case "gzip", "x-gzip":
		return gzip.NewReader(from)
	case "br":
		return brotli.NewReader(from), nil
	case "zstd":
		z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	case "deflate": // a zlib stream by RFC 9110; some servers send the raw one
		buffered := bufio.NewReader(from)
		if head, err := buffered.Peek(2); err == nil && head[0]&0x0f == 8 && (uint(head[0])<<8|uint(head[1]))%31 == 0 {
			return zlib.NewReader(buffered)
		}
		return flate.NewReader(buffered), nil
	}
	return nil, errors.New("the encoding is unknown")
}

// head is how many bytes of a document are looked at to tell an answer from something else.
const head = 512

// Answered reports whether a status is that of an answer. Some frameworks of servers answer with 201.
func Answered(status int) bool { return status == http.StatusOK || status == http.StatusCreated }

// Open reads the beginning of an answer. It returns a body with all of it, or a *[Fault] if it is
// no answer of an API: a page of a proxy, nothing, or a short document without anything in it.
func Open(f Format, response *http.Response) (io.Reader, error) {
	first := make([]byte, head)
	n, err := io.ReadAtLeast(response.Body, first, 1)
	events := strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream")
	for !events && err == nil && n < head { // a document may come in pieces
		var more int
		more, err = response.Body.Read(first[n:])
		n += more
	}
	first = bytes.TrimPrefix(first[:n], []byte("\uFEFF"))
	ended := errors.Is(err, io.EOF)
	if err != nil && !ended {
		return nil, err
	}
	if what := stranger(f, response.Header.Get("Content-Type"), first, ended); what != "" {
		return nil, &Fault{Status: http.StatusOK, NoAnswer: true, Message: what}
	}
	return io.MultiReader(bytes.NewReader(first), response.Body), nil
}

// stranger says what the beginning of a body is if it is no answer; empty: it may be one.
func stranger(f Format, contentType string, first []byte, ended bool) string {
	text := bytes.TrimSpace(first)
	switch {
	case len(text) == 0 && ended:
		return "an empty answer"
	case isPage(contentType, text):
		return page(text)
	case strings.HasPrefix(contentType, "text/event-stream"), len(text) == 0:
		return ""
	case text[0] != '{' && text[0] != '[' && !bytes.ContainsRune(text[:min(len(text), 16)], ':'): // events are not always called so
		return fmt.Sprintf("%q instead of an answer", clip(text))
	}
	if !ended || f == "" {
		return ""
	}
	m := NewMeter(f, 1, contentType)
	_, _ = m.Write(first)
	if !m.Facts().empty() {
		return ""
	}
	return fmt.Sprintf("%q instead of an answer", clip(text))
}

// isPage reports whether a body is HTML.
func isPage(contentType string, text []byte) bool {
	return len(text) > 0 && (strings.HasPrefix(contentType, "text/html") && text[0] != '{' && text[0] != '[' || text[0] == '<')
}

// page describes a page by its title.
func page(text []byte) string {
	lower := bytes.ToLower(text)
	if _, rest, ok := bytes.Cut(lower, []byte("<title")); ok {
		at := len(lower) - len(rest)
		_, title, _ := bytes.Cut(text[at:], []byte(">"))
		title, _, _ = bytes.Cut(title, []byte("<"))
		if title = bytes.TrimSpace(title); len(title) > 0 {
			return fmt.Sprintf("a page with the title %q", clip(title))
		}
	}
	return "a page"
}

func clip(text []byte) string { return string(text[:min(len(text), 80)]) }
