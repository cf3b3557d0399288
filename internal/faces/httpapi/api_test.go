package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/app/doctor"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

// service is the API of a store that Temporal cannot be reached for.
type service struct {
	t     testing.TB
	base  *control.Base
	url   string
	actor access.Actor
	api   http.Handler
}

func newService(t testing.TB) *service {
	t.Helper()
	return serviceOf(t, t.TempDir())
}

// serviceOf serves the store of a directory.
func serviceOf(t testing.TB, dir string) *service {
	t.Helper()
	s, err := store.Create(dir, store.Options{Clock: time.Now})
	require.NoError(t, err)
	h := &service{t: t, actor: access.Local("ann@host")}
	h.base = &control.Base{Store: s, Namespace: "default", Audit: access.NewAudit(s.State, time.Now), Now: time.Now}
	h.base.Serves, h.base.Examiner = true, doctor.ExamineStore
	h.api = httpapi.New(h.base, "test")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.api.ServeHTTP(w, r.WithContext(access.With(r.Context(), h.actor)))
	}))
	t.Cleanup(server.Close)
	h.url = server.URL + httpapi.Prefix
	return h
}

// session puts a session into the store.
func (h *service) session(id, team string, started time.Time, change func(*session.Execution)) {
	h.t.Helper()
	key := session.Key{Namespace: "default", Session: id}
	crew := spec.Team{Name: team, Phases: []spec.Phase{{Name: "design", Personas: []string{"ann"}}}}
	statetest.Put(h.t, h.base.Store.State, key, func(e *session.Execution) {
		e.Status = session.NewStatus(id, crew)
		e.Status.Status = session.Completed
		e.StartedAt, e.Run = &started, 1
		if change != nil {
			change(e)
		}
	})
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

// call calls an operation, and holds the answer against the API's description.
func (h *service) call(method, path string, body any, header ...string) answer {
	h.t.Helper()
	var in io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		require.NoError(h.t, err)
		in = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(context.Background(), method, h.url+path, in)
	require.NoError(h.t, err)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	got, err := http.DefaultClient.Do(r)
	require.NoError(h.t, err)
	defer got.Body.Close()
	data, err := io.ReadAll(got.Body)
	require.NoError(h.t, err)
	if got.StatusCode >= http.StatusBadRequest {
		require.Equal(h.t, "application/problem+json", got.Header.Get("Content-Type"), string(data))
		var problem huma.ErrorModel
		require.NoError(h.t, json.Unmarshal(data, &problem))
		require.Equal(h.t, got.StatusCode, problem.Status)
	}
	return answer{got.StatusCode, got.Header, data}
}

// read decodes the document of an answer.
func read[T any](t *testing.T, a answer) (document T) {
	t.Helper()
	a.read(t, &document)
	return document
}

func (a answer) read(t *testing.T, into any) {
	t.Helper()
	require.Equal(t, http.StatusOK, a.status, string(a.body))
	require.NoError(t, json.Unmarshal(a.body, into), string(a.body))
}

func TestAChangeWithAKeyIsMadeOnce(t *testing.T) {
	t.Parallel()
	h := newService(t)
	h.session("one", "web", time.Now(), nil)
	bad := map[string]any{"action": "reject"}
	const path = "/sessions/one/requests/r/answer"
	first := h.call("POST", path, bad, "Idempotency-Key", "k1")
	require.Equal(t, http.StatusUnprocessableEntity, first.status, string(first.body))
	again := h.call("POST", path, bad, "Idempotency-Key", "k1")
	require.Equal(t, first.body, again.body)
	require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
	other := h.call("POST", path, map[string]any{"action": "approve"}, "Idempotency-Key", "k1")
	require.Equal(t, http.StatusUnprocessableEntity, other.status)
	require.Contains(t, string(other.body), "was used for another request")

	h.actor = access.Local("bob@host")
	require.Empty(t, h.call("POST", path, bad, "Idempotency-Key", "k1").header.Get("Idempotent-Replayed"), "keys are a caller's own")

	away := h.call("POST", "/sessions/one/cancel", nil, "Idempotency-Key", "k2")
	require.Equal(t, http.StatusServiceUnavailable, away.status)
	require.Empty(t, h.call("POST", "/sessions/one/cancel", nil, "Idempotency-Key", "k2").header.Get("Idempotent-Replayed"),
		"what failed on the server can be tried again")
	require.Equal(t, http.StatusUnprocessableEntity, h.call("POST", path, bad, "Idempotency-Key", strings.Repeat("k", 256)).status)
}

// torn is a body that ends with an error.
type torn struct{ error }

func (b torn) Read([]byte) (int, error) { return 0, b.error }

func TestAKeyCanBeUsedAgainForAnUploadThatWasTooSlow(t *testing.T) {
	t.Parallel()
	h := newService(t)
	start := strings.Repeat("x", 1<<20)
	upload := func(key, rest string, body io.Reader) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, httpapi.Prefix+"/workspaces?team=web", io.MultiReader(strings.NewReader(start), body))
		r.ContentLength = int64(len(start) + len(rest))
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		h.api.ServeHTTP(w, r.WithContext(access.With(t.Context(), h.actor)))
		return w
	}
	for _, status := range []int{http.StatusRequestTimeout, http.StatusTooManyRequests} {
		key := strconv.Itoa(status)
		require.Equal(t, status, upload(key, "rest", torn{&access.RefusedError{Status: status, Title: "Later"}}).Code)
		require.Equal(t, http.StatusUnprocessableEntity, upload(key, "rest", strings.NewReader("rest")).Code, "it is no archive")
		require.Equal(t, "true", upload(key, "rest", strings.NewReader("rest")).Header().Get("Idempotent-Replayed"))
		require.Contains(t, upload(key, "longer", strings.NewReader("longer")).Body.String(), "was used for another request")
	}
}
