package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
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

// call calls an operation with a document, or the bytes of an archive, and holds the answer against the API's description.
func (h *service) call(method, path string, body any, header ...string) answer {
	h.t.Helper()
	var in io.Reader
	if archive, ok := body.([]byte); ok {
		in, body = bytes.NewReader(archive), nil
	} else if body != nil {
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

func TestTokensAndTheAuditLog(t *testing.T) {
	t.Parallel()
	h := newService(t)
	type token struct{ ID, State, Token, By string }
	body := map[string]any{"name": "ci", "roles": []string{"operator:web"}, "for": "1h"}
	got := h.call("POST", "/tokens", body, "Idempotency-Key", "k")
	made := read[token](t, got)
	require.True(t, strings.HasPrefix(made.Token, access.TokenPrefix))
	require.Equal(t, http.StatusUnprocessableEntity, h.call("POST", "/tokens", body, "Idempotency-Key", "k").status,
		"the name is taken")
	for _, to := range []string{"/tokens", "/people"} {
		wrong := h.call("POST", to, map[string]any{"name": "x", "roles": []string{"boss"}})
		require.Equal(t, http.StatusUnprocessableEntity, wrong.status)
		require.Regexp(t, `"boss\\" is not a role.*"location":"roles"`, string(wrong.body))
	}
	var list struct{ Tokens []token }
	h.call("GET", "/tokens", nil).read(t, &list)
	require.Len(t, list.Tokens, 1)
	require.Empty(t, list.Tokens[0].Token)
	require.Equal(t, "ann@host", list.Tokens[0].By)
	require.Equal(t, http.StatusNotFound, h.call("DELETE", "/tokens/nowhere", nil).status)
	h.call("DELETE", "/tokens/"+made.ID, nil).read(t, &made)
	require.Equal(t, "revoked", made.State)

	page := read[access.EventPage](t, h.call("GET", "/audit?action=token&limit=2", nil))
	require.Equal(t, "token.revoke", page.Events[0].Action)
	require.Equal(t, http.StatusUnprocessableEntity, h.call("GET", "/audit?cursor=x", nil).status)

	h.actor = access.Actor{Name: "bob", Roles: access.Roles{"web": {access.RoleAdmin}, access.AllTeams: {access.RoleOperator}}}
	require.Equal(t, http.StatusForbidden, h.call("GET", "/audit", nil).status)
	require.Equal(t, http.StatusOK, h.call("GET", "/audit?team=web", nil).status)
	require.Equal(t, http.StatusForbidden, h.call("GET", "/audit?team=api", nil).status)
	require.Equal(t, http.StatusForbidden,
		h.call("POST", "/tokens", map[string]any{"name": "x", "roles": []string{"viewer"}}).status)
	me := read[access.Actor](t, h.call("GET", "/me", nil))
	require.Equal(t, "bob", me.Name)
}

// document is a body.
type document = map[string]any

// needs says which permission an operation takes, by its method and path, and a body with which nothing but the role can be
// wrong. All operations have to be here but those that read, and that take [access.View].
var needs = map[string]struct {
	permission access.Permission
	body       document
}{
	"get /audit":                {access.Admin, nil},
	"get /tokens":               {access.Admin, nil},
	"post /tokens":              {access.Admin, document{"name": "ci", "roles": []string{"viewer"}}},
	"delete /tokens/{name}":     {access.Admin, nil},
	"get /people":               {access.Admin, nil},
	"post /people":              {access.Admin, document{"name": "bob", "roles": []string{"viewer"}}},
	"get /people/{name}":        {access.Admin, nil},
	"delete /people/{name}":     {access.Admin, nil},
	"put /people/{name}/roles":  {access.Admin, document{"roles": []string{"viewer"}}},
	"post /people/{name}/reset": {access.Admin, nil},
	"get /hooks":                {access.Admin, nil},
	"post /hooks":               {access.Admin, document{"name": "tickets", "team": "web"}},
	"delete /hooks/{name}":      {access.Admin, nil},
	"post /sessions/{session}/checkpoints/verify": {access.Operate, nil},
	"post /sessions/{session}/cancel":             {access.Operate, nil},
	"post /sessions/{session}/budget/raise":       {access.Operate, document{"tokens": 1}},
	// by action: an approval takes another
	"post /sessions/{session}/requests/{request}/answer": {access.Operate, document{"action": "retry"}},
	"post /budgets/{name}/raise":                         {access.Operate, document{"tokens": 1}},
	"post /sessions/{session}/calls/settle":              {access.Operate, document{"as": "nothing"}},
	"post /sessions/{session}/calls/{call}/settle":       {access.Operate, document{"as": "nothing"}},
	"post /breakers/{name}/trip":                         {access.Operate, document{"why": "test"}},
	"post /breakers/{name}/reset":                        {access.Operate, document{}},
	"put /teams/{name}":                                  {access.Admin, webTeam}, // it decides what others run
	"delete /teams/{name}":                               {access.Admin, nil},
	"post /sessions": {
		access.Operate,
		document{"team": document{"file": soloTeam}, "requirement": "Build it."},
	},
	"post /plan":       {access.Operate, document{"team": document{"file": soloTeam}}},
	"post /workspaces": {access.Operate, nil},
	"post /workspaces/texts": {
		access.Operate,
		document{"team": document{"file": soloTeam}, "files": document{"a.txt": "a"}},
	},
	"post /sessions/{session}/resume":         {access.Operate, nil},
	"post /sessions/{session}/deliver":        {access.Operate, nil},
	"post /sessions/{session}/resume/preview": {access.Operate, nil},
	"post /sessions/{session}/fork":           {access.Operate, document{"from": "design"}},
	"post /sessions/{session}/fork/preview":   {access.Operate, document{"from": "design"}},
}

// webTeam is a team file.
var webTeam = document{
	"version": 1, "name": "web",
	"personas": document{"ann": document{"role": "Writer", "agent": "coder", "instructions": "Write it."}},
	"phases": []any{
		document{"name": "design", "personas": []string{"ann"}},
		document{"name": "build", "personas": []string{"ann"}},
	},
}

var placeholder = regexp.MustCompile(`\{[a-z]+\}`)

// required is a query with the parameters that an operation cannot do without.
func required(described any) string {
	query := url.Values{}
	if described.(map[string]any)["operationId"] == "upload-workspace" { // a team or a session
		query.Set("team", "web")
	}
	parameters, _ := described.(map[string]any)["parameters"].([]any)
	for _, p := range parameters {
		if p := p.(map[string]any); p["in"] == "query" && p["required"] == true {
			query.Set(p["name"].(string), "1")
		}
	}
	return "?" + query.Encode()
}

// TestEveryRoleAtEveryOperation has each role call each operation of the OpenAPI document.
func TestEveryRoleAtEveryOperation(t *testing.T) {
	t.Parallel()
	h := newService(t)
	h.session("one", "web", time.Now(), nil)
	api := read[map[string]any](t, h.call("GET", "/openapi.json", nil))
	called := 0
	for path, operations := range api["paths"].(map[string]any) {
		for method, described := range operations.(map[string]any) {
			name := method + " " + path
			if path == "/events" {
				continue // a stream; what it tells is tested apart
			}
			need, known := needs[name]
			if !known {
				require.Equal(t, "get", method, "which permission and body does %s need?", name)
				need.permission = access.View
			}
			called++
			for _, role := range append(access.AllRoles, "", "elsewhere") {
				h.actor = access.Actor{}
				switch role {
				case "":
				case "elsewhere":
					h.actor = access.Actor{Name: "eve", Roles: access.Roles{"api": {access.RoleAdmin}}}
				default:
					h.actor = access.Actor{Name: "ann", Roles: access.Roles{access.AllTeams: {role}}}
				}
				at := strings.NewReplacer("{session}", "one", "{phase}", "design", "{persona}", "ann", "{name}", "web").Replace(path)
				at = placeholder.ReplaceAllString(at, "1") + required(described)
				var body any
				if need.body != nil {
					body = need.body
				}
				got := h.call(strings.ToUpper(method), at, body)
				switch {
				case role == "elsewhere" && strings.Contains(path, "{session}"):
					require.Equal(t, http.StatusForbidden, got.status, "of another team: %s: %s", name, got.body)
				case role == "elsewhere": // what is of no team, or of any
				case role == "":
					require.Equal(t, http.StatusUnauthorized, got.status, "nobody: %s: %s", name, got.body)
				case h.actor.Roles.Allow(need.permission, "web"):
					require.NotContains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, got.status, "%s: %s: %s", role, name, got.body)
				default:
					require.Equal(t, http.StatusForbidden, got.status, "%s: %s: %s", role, name, got.body)
				}
			}
		}
	}
	require.Greater(t, called, 12)
}
