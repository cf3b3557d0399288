package serve_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/testkit/hooktest"
)

const webTeam = `
version: 1
name: web
personas:
  ann: {role: Developer, agent: coder, instructions: "Write code."}
phases:
  - {name: build, personas: [ann]}
`

// site is a running server without Temporal: a call that would start a session gets the answer 503
// for that.
type site struct {
	t    *testing.T
	url  string
	dir  string
	ctx  context.Context
	base *control.Base
}

const wouldStart = "Temporal cannot be reached"

func newSite(t *testing.T) *site {
	t.Helper()
	h := newHost(t)
	s := h.store
	base := &control.Base{Store: s, Namespace: "default", Audit: access.NewAudit(s.State, time.Now), Now: time.Now}
	ctx := access.With(t.Context(), access.Local("ann@desk"))
	_, err := control.Teams{Base: base}.Register(ctx, control.Registration{Text: webTeam})
	require.NoError(t, err)
	return &site{t, h.url, s.Dir(), ctx, base}
}

func (s *site) add(in control.NewHook) control.AddedHook {
	s.t.Helper()
	in.Team = "web"
	made, err := control.Hooks{Base: s.base}.Add(s.ctx, in)
	require.NoError(s.t, err)
	require.Equal(s.t, s.url+"/hooks/"+in.Name, made.URL)
	return made
}

// reply is an answer with its body read.
type reply struct {
	status int
	header http.Header
	text   string
}

// post sends a call; change changes its request.
func (s *site) post(url string, body []byte, header http.Header, change func(*http.Request)) reply {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, url, bytes.NewReader(body))
	require.NoError(s.t, err)
	r.Header = header.Clone()
	r.Header.Set("Content-Type", "application/json")
	if change != nil {
		change(r)
	}
	got, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer got.Body.Close()
	data, err := io.ReadAll(got.Body)
	require.NoError(s.t, err)
	return reply{got.StatusCode, got.Header, string(data)}
}

func TestCallsThatAreNotSignedByTheHook(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	tickets, other := s.add(control.NewHook{Name: "tickets"}), s.add(control.NewHook{Name: "other"})
	body, now := []byte(`{"requirement": "Build it."}`), time.Now()
	right := hooktest.Sign(t, tickets.Secret, "msg_1", now, body)
	with := func(name string, values ...string) http.Header {
		h := right.Clone()
		h[http.CanonicalHeaderKey(name)] = values
		return h
	}
	unknown := s.post(s.url+"/hooks/nowhere", body, right, nil)
	require.Equal(t, http.StatusUnauthorized, unknown.status)
	require.NotEmpty(t, unknown.header.Get("WWW-Authenticate"))
	for name, wrong := range map[string]http.Header{
		"the secret of another hook": hooktest.Sign(t, other.Secret, "msg_1", now, body),
		"another body":               hooktest.Sign(t, tickets.Secret, "msg_1", now, []byte(`{"requirement": "Build that."}`)),
		"another id":                 with("webhook-id", "msg_2"),
		"another time":               with("webhook-timestamp", strconv.FormatInt(now.Unix()+1, 10)),
		"an old time":                hooktest.Sign(t, tickets.Secret, "msg_1", now.Add(-6*time.Minute), body),
		"a time to come":             hooktest.Sign(t, tickets.Secret, "msg_1", now.Add(6*time.Minute), body),
		"another version":            with("webhook-signature", "v2"+right.Get("webhook-signature")[2:]),
		"no signature":               with("webhook-signature"),
		"no id":                      with("webhook-id"),
		"no time":                    with("webhook-timestamp"),
		"no headers":                 {},
	} {
		got := s.post(tickets.URL, body, wrong, nil)
		if got.status == http.StatusTooManyRequests { // the limit of failures
			require.NotEmpty(t, got.header.Get("Retry-After"), name)
			continue
		}
		require.Equal(t, http.StatusUnauthorized, got.status, name)
		require.Equal(t, unknown.text, got.text, "%s: it looks like an unknown hook", name)
	}
	token, _, err := access.NewTokens(s.base.Store.State, s.base.Audit).Create(s.ctx,
		access.NewToken{Name: "ci", Roles: []string{"admin"}})
	require.NoError(t, err)
	got := s.post(tickets.URL, body, http.Header{"Authorization": {"Bearer " + token}}, nil)
	require.Contains(t, []int{http.StatusUnauthorized, http.StatusTooManyRequests}, got.status, "a token is no signature")

	got = s.post(tickets.URL, body, right, nil)
	require.Contains(t, got.text, wouldStart, "failures of others at the address do not matter")
	got = s.post(tickets.URL, body, with("webhook-signature", "v1,AAAA "+right.Get("webhook-signature")), nil)
	require.Contains(t, got.text, wouldStart, "a sender may sign with two secrets")

	page, err := s.base.Audit.Events(s.ctx, access.EventFilter{Action: "hook.call"})
	require.NoError(t, err)
	require.NotEmpty(t, page.Events)
	require.Equal(t, access.Denied, page.Events[0].Outcome)
	_, err = control.Hooks{Base: s.base}.Remove(s.ctx, "tickets")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.post(tickets.URL, body, right, nil).status != http.StatusServiceUnavailable },
		time.Minute, 50*time.Millisecond)
}

func TestSignedCallsThatAHookCannotUse(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	tickets := s.add(control.NewHook{Name: "tickets", Map: map[string]string{"requirement": "/issue/text"}})
	call := func(body string, change func(*http.Request)) reply {
		return s.post(tickets.URL, []byte(body), hooktest.Sign(t, tickets.Secret, rand.Text(), time.Now(), []byte(body)), change)
	}
	right := `{"issue": {"text": "Build it."}}`
	require.Contains(t, call(right, nil).text, wouldStart)
	for body, pointer := range map[string]string{
		`{}`: "/issue/text",
		`{"issue": {"text": "` + strings.Repeat("x", control.MaxRequirement+1) + `"}}`: "/issue/text",
		strings.Repeat("[", 1<<19): "",
		"not JSON":                 "",
	} {
		got := call(body, nil)
		require.Equal(t, http.StatusUnprocessableEntity, got.status, "%.60s: %s", body, got.text)
		require.Equal(t, "application/problem+json", got.header.Get("Content-Type"))
		var problem struct{ Errors []struct{ Location string } }
		require.NoError(t, json.Unmarshal([]byte(got.text), &problem))
		require.Equal(t, pointer, problem.Errors[0].Location, "%.60s", body)
		require.Less(t, len(got.text), 2000)
	}
	large := `{"issue": {"text": "` + strings.Repeat("x", 1<<20) + `"}}`
	require.Equal(t, http.StatusRequestEntityTooLarge, call(large, nil).status)
	got := call(large, func(r *http.Request) { r.ContentLength, r.Body = -1, io.NopCloser(strings.NewReader(large)) })
	require.Equal(t, http.StatusRequestEntityTooLarge, got.status, "its length is not told")
	for _, kind := range []string{"application/x-www-form-urlencoded", "text/plain", ""} {
		got := call(right, func(r *http.Request) { r.Header.Set("Content-Type", kind) })
		require.Equal(t, http.StatusUnsupportedMediaType, got.status, kind)
	}
	require.Equal(t, http.StatusMethodNotAllowed, call(right, func(r *http.Request) { r.Method = http.MethodPut }).status)
	require.Equal(t, http.StatusMisdirectedRequest, call(right, func(r *http.Request) { r.Host = "evil.example" }).status)

	_, err := control.Teams{Base: s.base}.Remove(s.ctx, "web")
	require.NoError(t, err)
	got = call(right, nil)
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Contains(t, got.text, "team web of hook tickets is not registered")
	require.NotContains(t, got.text, s.dir, "a caller learns nothing of the host")

	require.NoError(t, s.base.Store.Close())
	got = s.post(tickets.URL, []byte(right), http.Header{}, nil)
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Contains(t, got.text, "the server's log says why")
	require.NotContains(t, got.text, "database", "nor does one who has signed nothing")
}

func TestACallThatAHookIgnoresIsAccepted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	made := s.add(control.NewHook{Name: "gl", Kind: access.HookGitLab})
	body := []byte(`{"object_kind": "merge_request", "project": {"path_with_namespace": "octo/web"}, "object_attributes": {"iid": 13}}`)
	got := s.post(made.URL, body, http.Header{"X-Gitlab-Token": {made.Secret}}, nil)
	require.Equal(t, http.StatusAccepted, got.status)
	require.JSONEq(t, `{"hook": "gl", "ignored": "it is a pull request, and no session of the hook's team waits for it"}`, got.text)
}

func TestTheSecretsOfHooksAreTheOwnersOnly(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	made := s.add(control.NewHook{Name: "tickets"})
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(made.Secret, "whsec_"))
	require.NoError(t, err)
	require.Len(t, secret, 32)
	found := 0
	require.NoError(t, filepath.WalkDir(s.dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && bytes.Contains(data, []byte(made.Secret)) {
			found++
			info, err := e.Info()
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), path)
		}
		return err
	}))
	require.Positive(t, found)

	operator := access.With(t.Context(),
		access.Actor{Name: "bob", Roles: access.Roles{"web": {access.RoleOperator}, "shop": {access.RoleAdmin}}})
	hooks := control.Hooks{Base: s.base}
	_, err = hooks.Remove(operator, "tickets")
	require.ErrorAs(t, err, new(*access.DeniedError))
	_, unknown := hooks.Remove(operator, "nowhere")
	require.EqualError(t, unknown, err.Error(), "which hooks there are is not told")
	list, err := hooks.List(operator)
	require.NoError(t, err, "an admin of a team that has no hooks")
	require.Equal(t, control.HookList{Hooks: []access.Hook{}}, list)
}

// TestCallsThatDoNotEnd has callers send halves of bodies, and others call meanwhile.
func TestCallsThatDoNotEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	tickets := s.add(control.NewHook{Name: "tickets"})
	address := strings.TrimPrefix(s.url, "http://")
	body := []byte(`{"requirement": "Build it."}`)
	call := func() reply {
		return s.post(tickets.URL, body, hooktest.Sign(t, tickets.Secret, "msg_1", time.Now(), body), nil)
	}
	begin := func() *net.TCPConn {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = io.WriteString(conn, "POST /hooks/tickets HTTP/1.1\r\nHost: "+address+"\r\nContent-Length: 100\r\n\r\n{")
		require.NoError(t, err)
		return conn.(*net.TCPConn)
	}
	first := begin()
	require.Contains(t, call().text, wouldStart)
	require.NoError(t, first.CloseWrite())
	answer, _ := io.ReadAll(first)
	require.NotContains(t, string(answer), " 200 ", "half a body is not signed")

	var many []*net.TCPConn
	for range 40 {
		many = append(many, begin())
	}
	require.Eventually(t, func() bool { return call().status == http.StatusTooManyRequests }, time.Minute, 20*time.Millisecond,
		"bodies of unknown callers take memory")
	for _, conn := range many {
		require.NoError(t, conn.Close())
	}
	require.Eventually(t, func() bool { return call().status == http.StatusServiceUnavailable }, time.Minute, 20*time.Millisecond)
}
