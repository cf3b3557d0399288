package httpapi

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/storage"
)

const (
	idempotencyHeader = "Idempotency-Key"
	maxKey            = 255
	keptPrefix        = "requests/"
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

// kept is the document of a change that had a key.
type kept struct {
	// Request is the digest of the request that the key was first used for.
	Request string    `json:"request"`
	At      time.Time `json:"at"`
	// Change identifies the change for the operation, in all tries.
	Change string `json:"change"`
	// TriedAt is when the try in progress began; zero: none is in progress.
	TriedAt time.Time `json:"tried_at,omitzero"`
	// Status is zero without an answer.
	Status      int    `json:"status"`
	ContentType string `json:"content_type"`
	Body        []byte `json:"body"`
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
		answers := keptAnswers{base.Store.Storage(), keptKey(string(who.Via)+"\x00"+who.Identity()+"\x00"+who.Name, key), base.Now}
		claim, first, err := answers.claim(request)
		switch {
		case err != nil:
			writeProblem(w, http.StatusServiceUnavailable, "the store cannot be written; try again")
		case first != nil && first.Request != request:
			writeProblem(w, http.StatusUnprocessableEntity, idempotencyHeader+" was used for another request")
		case first != nil && first.Status == 0:
			w.Header().Set("Retry-After", "1")
			writeProblem(w, http.StatusConflict, "a request with this "+idempotencyHeader+" is under way; try again")
		case first != nil:
			w.Header().Set("Content-Type", first.ContentType)
			w.Header().Set("Idempotent-Replayed", "true")
			w.WriteHeader(first.Status)
			_, _ = w.Write(first.Body)
		default:
			held := &heldAnswer{ResponseWriter: w, limit: maxKept}
			next.ServeHTTP(held, r.WithContext(control.Repeatable(r.Context(), claim.document.Change)))
			answers.keep(claim, held)
			held.pass()
		}
	})
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
	return keptPrefix + hex.EncodeToString(sum[:]) + ".json"
}

// keptAnswers is the answer that is kept for one key.
type keptAnswers struct {
	docs storage.Storage
	key  string
	now  func() time.Time
}

// claimed is the document of a request in progress, as it is stored.
type claimed struct {
	document kept
	version  storage.Version
}

// claim records that a request is in progress; or it returns the stored answer to the first request
// with the key, or the document of another request in progress.
func (k keptAnswers) claim(request string) (c claimed, first *kept, err error) {
	data, version, err := k.docs.Read(k.key)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return c, nil, err
	}
	now := k.now().UTC()
	c.document = kept{Request: request, At: now, Change: rand.Text(), TriedAt: now}
	var found kept
	if err == nil && json.Unmarshal(data, &found) == nil && now.Sub(found.At) < repeatableFor {
		switch {
		case found.Status != 0, now.Sub(found.TriedAt) < claimFor:
			return c, &found, nil
		case found.Request == request:
			c.document.At, c.document.Change = found.At, found.Change
		}
	}
	c.version, err = k.write(c.document, version)
	if errors.Is(err, storage.ErrConflict) {
		return c, &kept{Request: request}, nil
	}
	return c, nil, err
}

// keep stores an answer, or that there is none where another try may have another one.
func (k keptAnswers) keep(c claimed, answer *heldAnswer) {
	failed := answer.status == 0 || answer.status >= http.StatusInternalServerError
	early := answer.status == http.StatusRequestTimeout || answer.status == http.StatusTooManyRequests
	c.document.TriedAt = time.Time{}
	if !answer.passed && !failed && !early {
		c.document.Status, c.document.ContentType, c.document.Body = answer.status, answer.Header().Get("Content-Type"), answer.body.Bytes()
	}
	_, _ = k.write(c.document, c.version)
}

func (k keptAnswers) write(document kept, version storage.Version) (storage.Version, error) {
	data, err := json.Marshal(document)
	if err != nil {
		return version, err
	}
	return k.docs.Write(k.key, data, version, storage.Durable)
}

// Sweep removes stored answers of a store that have expired.
func Sweep(base *control.Base) error {
	docs := base.Store.Storage()
	names, err := docs.List(strings.TrimSuffix(keptPrefix, "/"))
	if err != nil {
		return err
	}
	for _, name := range names {
		key := keptPrefix + name
		written, err := docs.ModTime(key)
		if err != nil || base.Now().Sub(written) < repeatableFor {
			continue
		}
		if _, version, err := docs.Read(key); err == nil {
			_ = docs.Delete(key, version) // else it was used again
		}
	}
	return nil
}
