package wire

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/secrets"
)

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
