package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

// maxTagged is the largest answer that gets an ETag.
const maxTagged = 8 << 20

// conditional adds an ETag to answers to GET, and answers 304 to a client that has the same one.
// Streams and large answers are not changed.
func conditional(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		held := &heldAnswer{ResponseWriter: w, limit: maxTagged}
		next.ServeHTTP(held, r)
		if held.passed {
			return
		}
		if held.status == http.StatusOK {
			sum := sha256.Sum256(held.body.Bytes())
			tag := `"` + hex.EncodeToString(sum[:16]) + `"`
			w.Header().Set("ETag", tag)
			if matches(r.Header.Get("If-None-Match"), tag) {
				w.Header().Del("Content-Type")
				w.WriteHeader(http.StatusNotModified)
				return
			}
		}
		held.pass()
	})
}

// matches reports whether an If-None-Match header names a tag.
func matches(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimPrefix(strings.TrimSpace(one), "W/"); one == tag || one == "*" {
			return true
		}
	}
	return false
}

// heldAnswer buffers an answer until it is complete. An answer that is flushed, or too large, is
// not buffered.
type heldAnswer struct {
	http.ResponseWriter
	limit  int
	status int
	body   bytes.Buffer
	passed bool
}

// WriteHeader implements [http.ResponseWriter].
func (h *heldAnswer) WriteHeader(status int) {
	if h.passed || h.status != 0 {
		return
	}
	h.status = status
}

// Write implements [http.ResponseWriter].
func (h *heldAnswer) Write(p []byte) (int, error) {
	if h.status == 0 {
		h.status = http.StatusOK
	}
	if !h.passed && h.body.Len()+len(p) > h.limit {
		h.pass()
	}
	if h.passed {
		return h.ResponseWriter.Write(p)
	}
	return h.body.Write(p)
}

// FlushError is for [http.ResponseController].
func (h *heldAnswer) FlushError() error {
	h.pass()
	return http.NewResponseController(h.ResponseWriter).Flush()
}

// Unwrap is for [http.ResponseController].
func (h *heldAnswer) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// pass writes the buffer and ends buffering.
func (h *heldAnswer) pass() {
	if h.passed {
		return
	}
	h.passed = true
	if h.status == 0 {
		h.status = http.StatusOK
	}
	h.ResponseWriter.WriteHeader(h.status)
	_, _ = h.ResponseWriter.Write(h.body.Bytes())
	h.body = bytes.Buffer{}
}
