package httpserver

import (
	"bufio"
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
