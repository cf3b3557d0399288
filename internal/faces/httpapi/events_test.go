package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
	"github.com/maestro-hive/maestro/internal/testkit/worktest"
)

// event is a server-sent event.
type event struct{ name, id, data string }

// follow returns the events of a service.
func (h *service) follow(last string) <-chan event {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/events", nil)
	require.NoError(h.t, err)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	got, err := http.DefaultClient.Do(r)
	require.NoError(h.t, err)
	require.Equal(h.t, http.StatusOK, got.StatusCode)
	require.Equal(h.t, "text/event-stream", got.Header.Get("Content-Type"))
	found := make(chan event, 100)
	go func() {
		defer got.Body.Close()
		var e event
		for lines := bufio.NewScanner(got.Body); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "event":
				e.name = value
			case "id":
				e.id = value
			case "data":
				e.data = value
			case "":
				if e.data != "" {
					found <- e
				}
				e = event{}
			}
		}
	}()
	return found
}

func receive(t testing.TB, from <-chan event) event {
	t.Helper()
	select {
	case e := <-from:
		return e
	case <-time.After(2 * time.Minute):
		require.Fail(t, "no event came")
		return event{}
	}
}

func TestEventsAreMissedByNobody(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := serviceOf(t, dir)
	h.session("one", "web", time.Now(), nil)
	first := h.follow("")
	begin := receive(t, first)
	require.Equal(t, event{"change", begin.id, `{"session":""}`}, begin, "all may have changed")
	e := begin
	for e.data != `{"session":"one"}` { // which may have been found before or after the reader came
		h.session("one", "web", time.Now(), func(e *session.Execution) { e.Reason = time.Now().String() })
		e = receive(t, first)
	}

	h.session("two", "web", time.Now(), nil) // while the reader is away
	again := serviceOf(t, dir)               // and the server restarts
	second := again.follow(e.id)
	for e = receive(t, second); e.data == `{"session":"one"}`; e = receive(t, second) {
		require.NotEqual(t, begin.id, e.id)
	}
	require.JSONEq(t, `{"session":"two"}`, e.data)
	require.JSONEq(t, `{"session":""}`, receive(t, again.follow("elsewhere.7")).data, "a position that is not known")
}

func TestEventsOfOtherTeamsAreNotTold(t *testing.T) {
	t.Parallel()
	h := newService(t)
	roles, err := access.ParseRoles("viewer:web")
	require.NoError(t, err)
	h.actor = access.Actor{Name: "bob", Roles: roles}
	events := h.follow("")
	require.JSONEq(t, `{"session":""}`, receive(t, events).data)
	h.session("theirs", "api", time.Now(), nil)
	h.session("mine", "web", time.Now(), nil)
	require.JSONEq(t, `{"session":"mine"}`, receive(t, events).data)
}

// TestAPersonFollowsABoundedNumberOfStreams: others can follow meanwhile.
func TestAPersonFollowsABoundedNumberOfStreams(t *testing.T) {
	t.Parallel()
	h := serviceOf(t, t.TempDir())
	for range 32 {
		h.follow("")
	}
	got, err := http.Get(h.url + "/events")
	require.NoError(t, err)
	defer got.Body.Close()
	require.Equal(t, http.StatusTooManyRequests, got.StatusCode)
}

func TestAttemptsAreRead(t *testing.T) {
	t.Parallel()
	h := newService(t)
	now := time.Now().UTC()
	h.session("one", "web", now, func(e *session.Execution) { e.Status.Status = session.Completed })
	of := state.Assignment{Key: session.Key{Namespace: "default", Session: "one"}, AssignmentID: annDesigns}
	statetest.PutRounds(t, h.base.Store.State, of,
		session.RoundRecord{Round: 1, RoundLog: session.RoundLog{Attempts: []session.AttemptReport{{
			Attempt: 1, Failure: failures.Failure{Category: failures.TestFailure, Message: "red"}, StartedAt: now, EndedAt: now,
			Log: worktest.Blob(t, h.base.Store, "-- turn 1\n<script>alert(1)</script>\n"),
		}}}})
	const one = "/sessions/one/attempts/design/ann/1/1"
	part := read[control.TranscriptRange](t, h.call("GET", one+"/transcript?from=-30&limit=100", nil))
	require.Equal(t, "<script>alert(1)</script>\n", part.Text)
	const list = "/sessions/one/attempts?assignment=design/ann&ended_after="
	since := func(at time.Time) string { return list + url.QueryEscape(at.Format(time.RFC3339Nano)) }
	require.Len(t, read[control.AttemptList](t, h.call("GET", since(now.Add(-time.Second)), nil)).Attempts, 1)
	require.Empty(t, read[control.AttemptList](t, h.call("GET", since(now), nil)).Attempts)
}

func TestABodyThatComesTooSlowlyIsATimeout(t *testing.T) {
	t.Parallel()
	h := newService(t)
	server := httptest.NewUnstartedServer(nil)
	address := server.Listener.Addr().String()
	guard := access.NewGuard(access.Options{
		DB: h.base.Store.State, Audit: h.base.Audit, Now: time.Now, Addresses: []string{address}, API: []string{httpapi.Prefix + "/"},
		Pace: 300 * time.Millisecond,
	})
	server.Config.Handler = guard.Wrap(h.api)
	server.Start()
	t.Cleanup(server.Close)
	ctx := access.With(t.Context(), h.actor)
	secret, _, err := access.NewTokens(h.base.Store.State, h.base.Audit).Create(ctx,
		access.NewToken{Name: "ci", Roles: []string{"admin"}})
	require.NoError(t, err)
	for _, key := range []string{"", "Idempotency-Key: k\r\n"} {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = fmt.Fprintf(conn, "POST %s/sessions HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: "+
			"application/json\r\nContent-Length: 100\r\n%s\r\n{", httpapi.Prefix, address, secret, key)
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(2*time.Minute)))
		got, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusRequestTimeout, got.StatusCode, key)
		require.NoError(t, got.Body.Close())
	}
}

// deadlines notes those that a request's body gets.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.set = append(d.set, t)
	return nil
}

func TestTheBodyOfAnOperationLeavesNoDeadline(t *testing.T) {
	t.Parallel()
	h := newService(t)
	r := httptest.NewRequest(http.MethodPost, httpapi.Prefix+"/plan", strings.NewReader("{}"))
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	h.api.ServeHTTP(w, r.WithContext(access.With(t.Context(), h.actor)))
	for _, at := range w.set {
		require.Zero(t, at, "net/http cancels a request whose connection has one when it passes")
	}
}
