package httpserver

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

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

func TestAnIdleConnectionIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pipes{make(chan net.Conn)}
		s := serve(p)
		defer func() { require.NoError(t, s.Close(t.Context())) }()
		conn, other := net.Pipe()
		p.dialed <- other
		close(p.dialed)
		_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		answers := bufio.NewReader(conn)
		got, err := http.ReadResponse(answers, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusNotFound, got.StatusCode)
		_, err = io.Copy(io.Discard, got.Body)
		require.NoError(t, err)

		answered := time.Now()
		_, err = answers.ReadByte()
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, idleLimit, time.Since(answered))
	})
}

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
