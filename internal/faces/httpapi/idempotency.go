package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/spec"
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
		Description: "A key of the caller's for this change. A request that comes again with its key within 24 hours gets the first " +
			"one's answer, and changes nothing.",
		Schema: &huma.Schema{Type: huma.TypeString, MaxLength: &length},
	}
}

// repeatable repeats the first answer for a change that comes again with its key. A server error is no
// answer: the operation is tried again, and knows by the change's id what it has done already.
func repeatable(base *control.Base, next *http.ServeMux) http.Handler {
	secret := map[string]bool{}
	for _, o := range table {
		r := o.where()
		secret[r.Method+" "+Prefix+r.Path] = r.secret
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get(idempotencyHeader)
		_, operation := next.Handler(r)
		if key == "" || r.Method == http.MethodGet || r.Method == http.MethodHead || secret[operation] {
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
		claim := state.Repeatable{
			Key: keptKey(string(who.Via)+"\x00"+who.Identity()+"\x00"+who.Name, key), Request: request,
			Change: rand.Text(),
		}
		found, mine, err := base.Store.State.Claim(r.Context(), claim, repeatableFor, claimFor)
		switch {
		case err != nil:
			writeProblem(w, http.StatusServiceUnavailable, "the store cannot be written; try again")
		case mine:
			held := &recorder{header: w.Header(), to: w} // answers of changes are documents, which are small
			next.ServeHTTP(held, r.WithContext(control.Repeatable(r.Context(), found.Change)))
			_ = base.Store.State.EndTry(context.WithoutCancel(r.Context()), withAnswer(found, held))
			w.WriteHeader(cmp.Or(held.status, http.StatusOK))
			_, _ = w.Write(held.Bytes())
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
func withAnswer(try state.Repeatable, answer *recorder) state.Repeatable {
	status := cmp.Or(answer.status, http.StatusOK)
	early := status == http.StatusRequestTimeout || status == http.StatusTooManyRequests
	if status < http.StatusInternalServerError && !early && answer.Len() <= maxKept {
		try.Status, try.ContentType, try.Answer = status, answer.header.Get("Content-Type"), answer.String()
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
	return string(spec.DigestOf([]byte(who + "\x00" + key)))
}

// recorder is an answer in memory.
type recorder struct {
	bytes.Buffer
	header http.Header
	status int
	// to is the answer that it becomes; nil: it becomes none.
	to http.ResponseWriter
}

// Header implements [http.ResponseWriter].
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements [http.ResponseWriter].
func (r *recorder) WriteHeader(status int) { r.status = cmp.Or(r.status, status) }

// Unwrap is for [http.ResponseController].
func (r *recorder) Unwrap() http.ResponseWriter { return r.to }
