package httpapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/store/state"
)

const (
	idempotencyHeader = "Idempotency-Key"
	maxKey            = 255
	// repeatableFor is how long an answer is stored.
	repeatableFor = 24 * time.Hour
	// claimFor is how long a request counts as in progress. Its server may have ended.
	claimFor = 2 * time.Minute
	// maxKept is the largest answer that is stored, and maxCompared the longest body that is
	// compared.
	maxKept     = 1 << 20
	maxCompared = 1 << 20
)

func idempotencyParameter() *huma.Param {
	length := maxKey
	return &huma.Param{
		Name: idempotencyHeader, In: "header",
		Description: "A key of the caller's for this change. A request that comes again with its key within 24 hours gets the first one's answer, and changes nothing.",
		Schema:      &huma.Schema{Type: huma.TypeString, MaxLength: &length},
	}
}

// repeatable repeats the first answer for a change that comes again with its key. A server error is no
// answer: the operation is tried again, and knows by the change's id what it has done already.
func repeatable(base *control.Base, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get(idempotencyHeader)
		hasSecret := strings.HasPrefix(r.URL.Path, Prefix+tokensPath) || strings.HasPrefix(r.URL.Path, Prefix+hooksPath)
		if key == "" || r.Method == http.MethodGet || r.Method == http.MethodHead || base.Store == nil || hasSecret {
			next.ServeHTTP(w, r)
			return
		}
		if len(key) > maxKey {
			writeProblem(w, http.StatusUnprocessableEntity, fmt.Sprintf("%s is longer than %d characters", idempotencyHeader, maxKey))
			return
		}
		request, err := digestRequest(r)
		var refused *access.RefusedError
		var tooLarge *http.MaxBytesError
		switch {
		case errors.As(err, &refused), errors.As(err, &tooLarge):
			problemOf(r.Context(), err).write(w)
			return
		case err != nil:
			writeProblem(w, http.StatusBadRequest, "the body cannot be read")
			return
		}
		who, _ := access.Of(r.Context())
		claim := state.Repeatable{Key: keptKey(string(who.Via)+"\x00"+who.Identity()+"\x00"+who.Name, key), Request: request, Change: rand.Text()}
		found, mine, err := base.Store.State.Claim(r.Context(), claim, repeatableFor, claimFor)
		switch {
		case err != nil:
			writeProblem(w, http.StatusServiceUnavailable, "the store cannot be written; try again")
		case mine:
			held := &heldAnswer{ResponseWriter: w, limit: maxKept}
			next.ServeHTTP(held, r.WithContext(control.Repeatable(r.Context(), found.Change)))
			_ = base.Store.State.EndTry(context.WithoutCancel(r.Context()), withAnswer(found, held))
			held.pass()
		case found.Request != request:
			writeProblem(w, http.StatusUnprocessableEntity, idempotencyHeader+" was used for another request")
		case found.Status == 0:
			w.Header().Set("Retry-After", "1")
			writeProblem(w, http.StatusConflict, "a request with this "+idempotencyHeader+" is under way; try again")
		default:
			w.Header().Set("Content-Type", found.ContentType)
			w.Header().Set("Idempotent-Replayed", "true")
			w.WriteHeader(found.Status)
			_, _ = io.WriteString(w, found.Answer)
		}
	})
}

// withAnswer adds an answer to a try, unless another try may have another one.
func withAnswer(try state.Repeatable, answer *heldAnswer) state.Repeatable {
	failed := answer.status == 0 || answer.status >= http.StatusInternalServerError
	early := answer.status == http.StatusRequestTimeout || answer.status == http.StatusTooManyRequests
	if !answer.passed && !failed && !early {
		try.Status, try.ContentType, try.Answer = answer.status, answer.Header().Get("Content-Type"), answer.body.String()
	}
	return try
}

// digestRequest is the digest of a request. Its body can be read again.
func digestRequest(r *http.Request) (string, error) {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s %s %s %d\n", r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), r.ContentLength)
	start, err := io.ReadAll(io.LimitReader(r.Body, maxCompared))
	if err != nil {
		return "", err
	}
	_, _ = h.Write(start)
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start), r.Body), r.Body}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func keptKey(who, key string) string {
	sum := sha256.Sum256([]byte(who + "\x00" + key))
	return hex.EncodeToString(sum[:])
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
