package access_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
)

// begin sends the head of a request and leaves the connection open.
func begin(t *testing.T, address, head string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, strings.ReplaceAll(head, "\n", "\r\n")+"\r\n\r\n")
	require.NoError(t, err)
	return conn
}

// answerOn is the answer on a connection with its body.
func answerOn(t *testing.T, conn net.Conn) string {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(2*time.Minute)))
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	return string(text)
}

// pacedSite is a site whose handler reads its body, works for longer than a body may pause, and says
// how both ended. open counts what it keeps for bodies.
func pacedSite(t *testing.T, pace time.Duration) (s *site, address, head string, open *atomic.Int64) {
	t.Helper()
	open = &atomic.Int64{}
	s = newSite(t, func(o *access.Options) {
		o.Pace = pace
		o.Body = func(*http.Request) (int64, func(), error) {
			open.Add(1)
			return 64 << 20, func() { open.Add(-1) }, nil
		}
	})
	server := httptest.NewServer(s.guard.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err == nil {
			time.Sleep(pace * 3 / 2)
		}
		_, _ = fmt.Fprint(w, n, err, r.Context().Err())
	})))
	t.Cleanup(server.Close)
	ctx := access.With(t.Context(), access.Local("ann@desk"))
	secret, _, err := access.NewTokens(s.db, s.audit).Create(ctx, access.NewToken{Name: "ci", Roles: []string{"operator"}})
	require.NoError(t, err)
	head = "POST /x HTTP/1.1\nHost: " + s.address + "\nAuthorization: Bearer " + secret
	return s, strings.TrimPrefix(server.URL, "http://"), head, open
}

func TestABodyThatComesTooSlowlyIsEnded(t *testing.T) {
	t.Parallel()
	const pace = 3 * time.Second
	_, address, head, open := pacedSite(t, pace)
	silent := begin(t, address, head+"\nContent-Length: 100")
	trickling := begin(t, address, head+"\nTransfer-Encoding: chunked")
	steady := begin(t, address, fmt.Sprint(head, "\nContent-Length: ", 16<<20))
	go func() {
		for {
			if _, err := io.WriteString(trickling, "1\r\nx\r\n"); err != nil {
				return
			}
			time.Sleep(pace / 50)
		}
	}()
	go func() {
		for range 16 {
			_, _ = steady.Write(make([]byte, 1<<20))
			time.Sleep(pace / 10)
		}
	}()
	require.Contains(t, answerOn(t, silent), "too slowly")
	require.Contains(t, answerOn(t, trickling), "too slowly")
	require.Equal(t, fmt.Sprint(16<<20, nil, nil), answerOn(t, steady), "neither a long body nor the work after it is ended")
	require.Eventually(t, func() bool { return open.Load() == 0 }, time.Minute, 10*time.Millisecond)
}

func TestAFormThatIsTooSlowOrTooLargeIsAnsweredSo(t *testing.T) {
	t.Parallel()
	slow, s := newSite(t, func(o *access.Options) { o.Pace = 300 * time.Millisecond }), newSite(t)
	for _, kind := range []string{"application/x-www-form-urlencoded", "multipart/form-data; boundary=b"} {
		head := func(s *site) string {
			return "POST /x HTTP/1.1\nHost: " + s.address + "\nOrigin: " + s.url + "\nCookie: " + cookieOf(t, s.browser()) +
				"\nContent-Type: " + kind
		}
		require.Contains(t, answerOn(t, begin(t, slow.address, head(slow)+"\nContent-Length: 100")), `"status":408`)
		large := begin(t, s.address, head(s)+"\nTransfer-Encoding: chunked")
		field := "--b\r\nContent-Disposition: form-data; name=x\r\n\r\n" + strings.Repeat("x", 2<<20)
		go func() { _, _ = fmt.Fprintf(large, "%x\r\n%s\r\n", len(field), field) }()
		require.Contains(t, answerOn(t, large), `"status":413`)
	}
}

// TestBodiesOfUnknownCallersAreBoundedTogether has many networks send bodies that do not end.
func TestBodiesOfUnknownCallersAreBoundedTogether(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *access.Options) {
		o.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		o.Signed = []string{"/hooks/"}
		o.Signature = func(r *http.Request) (access.Actor, *http.Request, error) {
			_, _ = io.Copy(io.Discard, r.Body)
			return access.Actor{}, r, access.ErrSignature
		}
	})
	const form = "Content-Type: application/x-www-form-urlencoded"
	for _, path := range []string{"/hooks/x", "/login"} {
		call := func() int {
			return s.user().send("POST", path, "name=ann", "X-Forwarded-For: 192.0.2.1", "Origin: "+s.url, form).StatusCode
		}
		var many []net.Conn
		for i := range 256 {
			many = append(many, begin(t, s.address, fmt.Sprintf("POST %s HTTP/1.1\nHost: %s\nOrigin: %s\n%s\nX-Forwarded-For: "+
				"10.0.0.%d\nContent-Length: 100", path, s.address, s.url, form, i)))
		}
		require.Eventually(t, func() bool { return call() == http.StatusServiceUnavailable }, time.Minute, 20*time.Millisecond, path)
		require.NoError(t, many[0].Close())
		require.Eventually(t, func() bool { return call() != http.StatusServiceUnavailable }, time.Minute, 20*time.Millisecond, path)
	}
}
