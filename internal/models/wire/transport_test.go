package wire_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/models/wire"
)

// TestACallThatNobodyGotIsNotBilled, whatever stood between the worker and the provider. A call that was cut off may be.
func TestACallThatNobodyGotIsNotBilled(t *testing.T) {
	t.Parallel()
	serve := func(h http.HandlerFunc) *httptest.Server {
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		return server
	}
	cut := serve(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	deaf := serve(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	nobody := "http://" + gone.Addr().String()

	for name, c := range map[string]struct {
		to, proxy string
		unbilled  bool
	}{
		"nobody listens":                {nobody, "", true},
		"no proxy listens":              {cut.URL, nobody, true},
		"the proxy opens no tunnel":     {secure.URL, deaf.URL, true},
		"the certificate is unknown":    {secure.URL, "", true},
		"the provider speaks no TLS":    {strings.Replace(cut.URL, "http:", "https:", 1), "", true},
		"the provider closes the call":  {cut.URL, "", false},
		"the proxy closes the call":     {nobody, cut.URL, false},
		"the tunnel leads to no server": {secure.URL, cut.URL, true},
	} {
		transport := &http.Transport{Proxy: func(*http.Request) (*url.URL, error) {
			if c.proxy == "" {
				return nil, nil
			}
			return url.Parse(c.proxy)
		}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.to, strings.NewReader("{}"))
		require.NoError(t, err)
		response, err := wire.Transport{RoundTripper: transport}.RoundTrip(request)
		if err == nil {
			require.NoError(t, response.Body.Close())
		}
		require.Error(t, err, name)
		require.Equal(t, c.unbilled, wire.Unbilled(err), "%s: %v", name, err)
		transport.CloseIdleConnections()
	}
}
