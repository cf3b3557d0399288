package httpserver

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAllPeersTogetherAreBounded has peers of several networks.
func TestAllPeersTogetherAreBounded(t *testing.T) {
	t.Parallel()
	l := Bound(nil, Bounds{All: 3, Peer: 2}).(*boundListener) //nolint:forcetypeassert // it is
	from := func(peer string) *boundConn {
		other, conn := net.Pipe()
		t.Cleanup(func() { _, _ = other.Close(), conn.Close() })
		return &boundConn{Conn: conn, of: l, peer: peer}
	}
	first := from("a")
	require.True(t, l.begin(first))
	require.True(t, l.begin(from("b")))
	require.True(t, l.begin(from("c")))
	require.False(t, l.begin(from("d")))
	require.NoError(t, first.Close())
	require.True(t, l.begin(from("d")))

	// An idle connection makes room: the oldest of the peer, or of the peer with the most, and none that is answered.
	l.bounds = Bounds{All: 4, Peer: 2, Replaced: true}
	old, busy := from("b"), from("e")
	require.True(t, l.begin(old))
	require.True(t, l.begin(busy))
	require.Len(t, l.peers["b"], 1, "b had the most")
	require.Same(t, old, l.peers["b"][0], "and lost the older one")
	busy.answering.Store(true)
	second := from("e")
	require.True(t, l.begin(second))
	require.Len(t, l.peers, 3, "another peer has none any more")
	third := from("e")
	require.True(t, l.begin(third))
	require.Equal(t, []*boundConn{busy, third}, l.peers["e"])
	_, err := second.Write([]byte("x"))
	require.ErrorIs(t, err, io.ErrClosedPipe)
	third.answering.Store(true)
	require.False(t, l.begin(from("e")), "both are answered")
}

// TestWhatOneClientHasIsOneNetwork: a client chooses among its addresses.
func TestWhatOneClientHasIsOneNetwork(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"127.0.0.1": "loopback", "127.9.9.9": "loopback", "::1": "loopback", "::ffff:127.0.0.2": "loopback",
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::/64", "2001:db8::ffff:2": "2001:db8::/64",
		"2001:db8:0:1::1": "2001:db8:0:1::/64", "fe80::1%eth0": "fe80::/64", "pipe": "pipe",
	} {
		require.Equal(t, want, Network(address), address)
	}
}

// TestProbesAreAnsweredWhenTheShareIsUsedUp: other servers of the process have no connection left.
func TestProbesAreAnsweredWhenTheShareIsUsedUp(t *testing.T) {
	t.Parallel()
	for _, b := range []Bounds{serverBounds, probeBounds} {
		l := Bound(nil, b).(*boundListener) //nolint:forcetypeassert // it is
		l.limit = 0
		_, conn := net.Pipe()
		require.Equal(t, b.Reserved, l.begin(&boundConn{Conn: conn, of: l, peer: "a"}))
	}
}

// TestAReaderThatReadsNoMoreIsDisconnected: what is written for it ends with an error.
func TestAReaderThatReadsNoMoreIsDisconnected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pipes{make(chan net.Conn, 1)}
		reader, other := net.Pipe()
		p.dialed <- other
		c, err := Bound(p, serverBounds).Accept()
		require.NoError(t, err)
		go func() { // slow, but it reads
			for range 3 {
				time.Sleep(writeLimit * 2 / 3)
				_, _ = io.ReadFull(reader, make([]byte, writePiece))
			}
		}()
		begun := time.Now()
		n, err := c.Write(make([]byte, 10*writePiece))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, 3*writePiece, n)
		require.Equal(t, 3*writeLimit, time.Since(begun))
		require.NoError(t, c.SetWriteDeadline(time.Now().Add(time.Second)))
		begun = time.Now()
		_, err = c.Write([]byte("x"))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, time.Second, time.Since(begun), "the server's own deadline")
	})
}

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
