package httpapi_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
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
