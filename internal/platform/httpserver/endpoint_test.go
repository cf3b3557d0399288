package httpserver

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// pipes is a listener whose connections stay in this process.
type pipes struct {
	dialed chan net.Conn
}

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p.dialed
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestIdleConnectionsKeepNobodyOut: one peer has as many as it may, and asks nothing. A request of the same peer is
// answered, and so is the one that was under way.
func TestIdleConnectionsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	s, err := ListenForProbes(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close(context.Background())) }()
	begun, on := make(chan struct{}), make(chan struct{})
	s.Handle("/long", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(begun); <-on }))
	answered := make(chan int)
	ask := func(path string) {
		status := 0
		if got, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" +
			s.Address() + path); err == nil {
			status = got.StatusCode
			_ = got.Body.Close()
		}
		answered <- status
	}
	go ask("/long")
	<-begun
	for range 2 * probeBounds.All {
		idle, err := net.Dial("tcp", s.Address())
		require.NoError(t, err)
		defer idle.Close()
	}
	go ask("/")
	require.Equal(t, http.StatusNotFound, <-answered)
	close(on)
	require.Equal(t, http.StatusOK, <-answered)
}
