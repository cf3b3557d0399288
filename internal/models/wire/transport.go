package wire

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	"github.com/maestro-hive/maestro/internal/core/secrets"
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

// decompress replaces the body of an answer by its content. Some servers and edges compress answers also if they are asked
// not to. The reader of the body bounds what it becomes.
func decompress(response *http.Response) {
	encoding := strings.ToLower(response.Header.Get("Content-Encoding"))
	if encoding == "" || encoding == "identity" {
		return
	}
	response.Body = &packedBody{ReadCloser: response.Body, encoding: encoding}
	response.Header.Del("Content-Encoding")
	response.Header.Del("Content-Length")
	response.ContentLength = -1
}

// packedBody is a body that is decompressed while it is read. Its beginning is read at the first read.
type packedBody struct {
	io.ReadCloser
	encoding string
	content  io.Reader
}

// Read reads the next part of the content.
func (b *packedBody) Read(p []byte) (n int, err error) {
	if b.content == nil {
		if b.encoding != "gzip" && b.encoding != "x-gzip" {
			return 0, fmt.Errorf("the answer is compressed (%.20s), although it was asked for as it is", b.encoding)
		}
		if b.content, err = gzip.NewReader(b.ReadCloser); err != nil {
			b.content = nil
			return 0, fmt.Errorf("the answer is compressed, and cannot be read: %w", err)
		}
	}
	return b.content.Read(p)
}

// head is how many bytes of a document are looked at to tell an answer from something else.
const head = 512

// Answered reports whether a status is that of an answer. Some frameworks of servers answer with 201.
func Answered(status int) bool { return status == http.StatusOK || status == http.StatusCreated }

// Open reads the beginning of an answer. It returns a body with all of it, or a *[Fault] if it is
// no answer of an API: a page of a proxy, nothing, or a short document without anything in it.
func Open(f Format, response *http.Response) (io.Reader, error) {
	body, kind, least := bufio.NewReaderSize(response.Body, head), response.Header.Get("Content-Type"), head
	if strings.HasPrefix(kind, "text/event-stream") { // a document may come in pieces
		least = 1
	}
	_, err := body.Peek(least)
	first, _ := body.Peek(body.Buffered())
	ended := errors.Is(err, io.EOF)
	if err != nil && !ended {
		return nil, err
	}
	if rest, ok := bytes.CutPrefix(first, []byte("\uFEFF")); ok {
		_, _ = body.Discard(len(first) - len(rest)) // it is buffered
		first = rest
	}
	if what := stranger(f, kind, first, ended); what != "" {
		return nil, &Fault{Status: http.StatusOK, NoAnswer: true, Message: what}
	}
	return body, nil
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

// errRepeatsKey ends an answer whose events, put together, have the provider's key in their content.
var errRepeatsKey = errors.New("it repeats the provider's key in several events")

const (
	// heldFrom is how many bytes of what may become a key are held back until it is none. Fewer tell nobody anything, and
	// ordinary words begin with them.
	heldFrom = 4
	// maxPaths bounds the places of an answer whose content is put together, and maxHeld what is held back, in bytes.
	maxPaths, maxHeld = 64, 4 << 20
)

// WithoutKey reads the body of an answer, and ends it with an error before the content of its events has a key in it.
// One event with the whole key was masked by [Transport]. A word that people use is no key.
func WithoutKey(f Format, response *http.Response, key *secrets.Set, body io.Reader) io.Reader {
	if f == "" || len(key.Secrets()) == 0 || len(key.Ordinary()) > 0 || !strings.HasPrefix(response.Header.Get("Content-Type"),
		"text/event-stream") {
		return body
	}
	r := &keyless{from: body, key: key, format: formats[f], lines: lines{on: true}, said: map[string]*secrets.Scanner{}}
	r.json = scanner{leaf: r.leaf}
	return r
}

// keyless is the reader of [WithoutKey].
type keyless struct {
	from   io.Reader
	key    *secrets.Set
	format *format
	lines  lines
	json   scanner
	// said has the content so far, by its path.
	said map[string]*secrets.Scanner
	// held was read and may have a part of the key in it; ready is to be returned, and err how the body has ended.
	held, ready []byte
	err         error
}

// Read reads the next part.
func (k *keyless) Read(p []byte) (n int, err error) {
	for len(p) > 0 && len(k.ready) == 0 && k.err == nil {
		n, k.err = k.from.Read(p)
		k.held = append(k.held, p[:n]...)
		k.lines.write(p[:n], &k.json)
		found, pending := k.look()
		switch {
		case found, len(k.held) > maxHeld:
			k.held, k.err = nil, errRepeatsKey
		case !pending || k.err != nil:
			k.ready, k.held = k.held, nil
		}
	}
	n = copy(p, k.ready)
	if k.ready = k.ready[n:]; len(k.ready) == 0 {
		err = k.err
	}
	return n, err
}

// look tells whether the content has a key in it, or may have with what follows.
func (k *keyless) look() (found, pending bool) {
	for _, s := range k.said {
		_, has := s.Found()
		found, pending = found || has, pending || s.Pending() >= heldFrom
	}
	return found, pending
}

func (k *keyless) leaf(path string, l leaf) {
	if !k.format.content(path) {
		return
	}
	s := k.said[path]
	if s == nil {
		if len(k.said) == maxPaths {
			return
		}
		s = k.key.Scanner()
		k.said[path] = s
	}
	_, _ = io.WriteString(s, l.text()) // never fails
}
