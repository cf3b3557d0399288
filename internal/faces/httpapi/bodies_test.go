package httpapi_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
)

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
	all, err := access.ParseRoles("admin")
	require.NoError(t, err)
	secret, _, err := access.NewTokens(h.base.Store.State, h.base.Audit).Create(ctx, access.NewToken{Name: "ci", Roles: all})
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
