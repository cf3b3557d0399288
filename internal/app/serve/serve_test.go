package serve_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/app/serve"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
)

func TestAServerIsKnownWhileItRuns(t *testing.T) {
	t.Parallel()
	s, err := store.Create(t.TempDir(), store.Options{Clock: time.Now})
	require.NoError(t, err)
	start := func(hosts ...string) *serve.Server {
		return started(t, s, func(context.Context) (*temporalutil.Connection, error) { return nil, errors.New("none") }, hosts...)
	}
	served := func() string { return access.ServedAt(t.Context(), s.State) }
	first, public := start(), start("maestro.localhost")
	second := start()
	require.Equal(t, public.URL(), served())
	public.Stop(t.Context())
	require.Equal(t, first.URL(), served())
	first.Stop(t.Context())
	require.Equal(t, second.URL(), served())
	second.Stop(t.Context())
	require.Empty(t, served())
}

// What a server does beside requests uses its index and its store: it ends before them.
func TestAServerHasEndedWhenItIsStopped(t *testing.T) {
	t.Parallel()
	s, err := store.Create(t.TempDir(), store.Options{Clock: time.Now})
	require.NoError(t, err)
	var dials, ended atomic.Int32
	server := started(t, s, func(ctx context.Context) (*temporalutil.Connection, error) {
		dials.Add(1)
		<-ctx.Done()
		time.Sleep(50 * time.Millisecond) // as what is under way takes a moment to end
		ended.Add(1)
		return nil, ctx.Err()
	})
	server.Stop(t.Context())
	require.Equal(t, dials.Load(), ended.Load())
	require.Positive(t, ended.Load())
}

// host is a server of a store that Temporal cannot be reached for.
type host struct {
	t      *testing.T
	store  *store.Store
	server *serve.Server
	url    string
	tokens *access.Tokens
	audit  *access.Audit
}

func newHost(t *testing.T) *host {
	t.Helper()
	s, err := store.Create(t.TempDir(), store.Options{Clock: time.Now})
	require.NoError(t, err)
	server := started(t, s, func(context.Context) (*temporalutil.Connection, error) { return nil, errors.New("nothing is there") })
	audit := access.NewAudit(s.State, time.Now)
	return &host{t, s, server, server.URL(), access.NewTokens(s.State, audit), audit}
}

// started is a server of a store that ends with the test.
func started(t *testing.T, s *store.Store, dial func(context.Context) (*temporalutil.Connection, error),
	hosts ...string,
) *serve.Server {
	t.Helper()
	server, err := serve.Start(t.Context(), serve.Options{
		Store: s, Namespace: "default", Listen: "127.0.0.1:0", Hosts: hosts, User: "ann@desk", Host: "desk", Version: "test",
		Now: time.Now, Log: slog.New(slog.DiscardHandler), Dial: dial,
	})
	require.NoError(t, err)
	t.Cleanup(func() { server.Stop(context.Background()) })
	return server
}

// token is one with a role, of a person of its own.
func (h *host) token(name, role string) string {
	h.t.Helper()
	return h.tokenOf(name+"@desk", name, role)
}

// tokenOf is one of a person.
func (h *host) tokenOf(person, name, role string) string {
	h.t.Helper()
	ctx := access.With(h.t.Context(), access.Local(person))
	secret, _, err := h.tokens.Create(ctx, access.NewToken{Name: name, Roles: []string{role}})
	require.NoError(h.t, err)
	return secret
}

// send sends a body and returns the answer. A body whose end the server does not wait for is cut off.
func (h *host) send(token, path string, body io.Reader, size int64) *http.Response {
	h.t.Helper()
	return h.sendBy(http.DefaultClient, token, path, body, size)
}

func (h *host) sendBy(client *http.Client, token, path string, body io.Reader, size int64) *http.Response {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.url+path, body)
	require.NoError(h.t, err)
	r.ContentLength = size
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
	if client != http.DefaultClient {
		r.Header.Set("Expect", "100-continue")
	}
	got, err := client.Do(r)
	require.NoError(h.t, err)
	require.NoError(h.t, got.Body.Close())
	return got
}

// counted is a body that never ends, and counts what was sent of it.
type counted struct{ sent atomic.Int64 }

func (c *counted) Read(p []byte) (int, error) {
	c.sent.Add(int64(len(p)))
	return len(p), nil
}

// TestNothingIsReadOfAnUploadThatIsRefused sends 400 MiB with roles that may not upload, to the API
// and to forms.
func TestNothingIsReadOfAnUploadThatIsRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	viewer, other, operator := h.token("eve", "viewer"), h.token("oscar", "operator:api"), h.token("olga", "operator")
	const size = 400 << 20
	for _, refused := range []struct {
		token, path string
		status      int
	}{
		{viewer, "/api/v1/workspaces?team=web", http.StatusForbidden},
		{other, "/api/v1/workspaces?team=web", http.StatusForbidden},
		{viewer, "/api/v1/workspaces?session=web-1", http.StatusForbidden},
		{viewer, "/start?for=web", http.StatusForbidden},
		{other, "/start?for=web", http.StatusForbidden},
		{viewer, "/sessions/web-1/requests/r-1/supply", http.StatusForbidden},
		{operator, "/api/v1/workspaces?team=../x", http.StatusUnprocessableEntity},
		{other, "/api/v1/workspaces", http.StatusUnprocessableEntity},
		{operator, "/start", http.StatusRequestEntityTooLarge},
		{operator, "/register-team", http.StatusRequestEntityTooLarge},
		{operator, "/api/v1/sessions", http.StatusRequestEntityTooLarge},
		{operator, "/api/v1/workspaces?team=web", http.StatusRequestEntityTooLarge},
	} {
		body, length := &counted{}, int64(size)
		if refused.token == operator && refused.path == "/api/v1/workspaces?team=web" {
			length = 513 << 20
		}
		require.Equal(t, refused.status, h.send(refused.token, refused.path, body, length).StatusCode, refused.path)
		require.Less(t, body.sent.Load(), int64(32<<20), "%s: no more is sent than what lies between two programs", refused.path)
	}
	page, err := h.audit.Events(access.With(t.Context(), access.Local("ann@desk")), access.EventFilter{Action: "workspace.upload"})
	require.NoError(t, err)
	require.NotEmpty(t, page.Events)
	require.Equal(t, access.Denied, page.Events[0].Outcome)
}

// TestNothingStaysOfTheFilesOfForms sends forms of a browser and of a token with files that memory has no
// room for. It is not parallel: the environment says where temporary files are.
func TestNothingStaysOfTheFilesOfForms(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Jar: jar}
	link, err := h.server.LoginURL(t.Context())
	require.NoError(t, err)
	_, code, _ := strings.Cut(link, "code=")
	got, err := browser.PostForm(h.url+"/login/link", url.Values{"code": {code}})
	require.NoError(t, err)
	require.NoError(t, got.Body.Close())
	for _, form := range []struct {
		name   string
		header http.Header
		bytes  int
		status int
	}{
		{"a page of this server", http.Header{"Origin": {h.url}}, 2 << 20, http.StatusNotFound},
		{"a page of another server", http.Header{"Origin": {"http://evil.example"}}, 2 << 20, http.StatusForbidden},
		{"no browser", http.Header{"Authorization": {"Bearer " + h.token("ci", "operator")}}, 33 << 20, http.StatusNotFound},
	} {
		var body bytes.Buffer
		w := multipart.NewWriter(&body)
		require.NoError(t, w.WriteField("team", "web"))
		file, err := w.CreateFormFile("upload:workspace", "files.tar")
		require.NoError(t, err)
		_, err = file.Write(make([]byte, form.bytes))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+"/start?for=web", &body)
		require.NoError(t, err)
		r.Header = form.header
		r.Header.Set("Content-Type", w.FormDataContentType())
		client := browser
		if r.Header.Get("Authorization") != "" {
			client = http.DefaultClient
		}
		got, err := client.Do(r)
		require.NoError(t, err)
		require.NoError(t, got.Body.Close())
		require.Equal(t, form.status, got.StatusCode, form.name)
		require.Eventually(t, func() bool {
			left, err := os.ReadDir(dir)
			return err == nil && len(left) == 0
		}, time.Minute, 20*time.Millisecond, "files stay on the disk: %s", form.name)
	}
}

// TestTheDiskOfTemporaryFilesHasRoomForUploads has one without any.
func TestTheDiskOfTemporaryFilesHasRoomForUploads(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("/proc is a file system of Linux")
	}
	h := newHost(t)
	t.Setenv("TMPDIR", "/proc")
	for _, size := range []int64{2 << 20, -1} {
		got := h.send(h.token(fmt.Sprint("t", size), "operator"), "/api/v1/workspaces?team=web", &counted{}, size)
		require.Equal(t, http.StatusInsufficientStorage, got.StatusCode)
	}
}

// TestFewUploadsRunAtOnce holds uploads open: two of one person, and four in all.
func TestFewUploadsRunAtOnce(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	tokens := map[string]string{}
	for _, name := range []string{"a", "b", "c", "late"} {
		tokens[name] = h.token(name, "operator:web")
	}
	tokens["a2"] = h.tokenOf("a@desk", "a2", "operator:web")
	const size = access.DefaultBody + 1 // three times this is reserved on the disk
	// It sends nothing of a body before the server begins to read it.
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
	var ends []*io.PipeWriter
	answers := make(chan int, 8)
	begin := func(name string) {
		body, end := io.Pipe()
		ends = append(ends, end)
		token := tokens[name]
		go func() { answers <- h.sendBy(client, token, "/api/v1/workspaces?team=web", body, size).StatusCode }()
		_, err := end.Write([]byte{0})
		require.NoError(t, err)
	}
	finish := func(end *io.PipeWriter) {
		_, err := end.Write(make([]byte, size-1))
		require.NoError(t, errors.Join(err, end.Close()))
		require.Equal(t, http.StatusUnprocessableEntity, <-answers, "it was no archive")
	}
	for _, name := range []string{"a", "a2", "b", "c"} {
		begin(name)
	}
	for name, status := range map[string]int{"late": http.StatusServiceUnavailable, "a": http.StatusTooManyRequests} {
		got := h.send(tokens[name], "/api/v1/workspaces?team=web", &counted{}, size)
		require.Equal(t, status, got.StatusCode)
		require.Equal(t, "10", got.Header.Get("Retry-After"))
	}
	finish(ends[0])
	begin("a")
	for _, end := range ends[1:] {
		finish(end)
	}
}
