package egress

import (
	"bytes"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// traffic counts the bytes of a room's connections.
type traffic struct{ received, sent atomic.Int64 }

// listener accepts connections of a room. A connection that has no traffic for the time idle is
// closed.
type listener struct {
	net.Listener
	idle    time.Duration
	traffic *traffic
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, of: l, timer: time.AfterFunc(l.idle, func() { _ = c.Close() })}, nil
}

// conn is a connection of a room. It ends when it is idle for too long.
type conn struct {
	net.Conn
	of    *listener
	timer *time.Timer
}

// Read reads what the room sends.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.timer.Reset(c.of.idle)
	c.of.traffic.sent.Add(int64(n))
	return n, err
}

// Write writes what the room receives.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.timer.Reset(c.of.idle)
	c.of.traffic.received.Add(int64(n))
	return n, err
}

// Close closes the connection.
func (c *conn) Close() error {
	c.timer.Stop()
	return c.Conn.Close()
}

// CloseWrite closes the direction to the room.
func (c *conn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// prefixedConn is a connection of which some bytes have been read already.
type prefixedConn struct {
	net.Conn
	r io.Reader
}

func withPrefix(c net.Conn, read []byte) prefixedConn {
	return prefixedConn{c, io.MultiReader(bytes.NewReader(read), c)}
}

// Read returns the bytes that have been read already, and then reads others.
func (c prefixedConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// CloseWrite closes the direction to the room.
func (c prefixedConn) CloseWrite() error { return closeWrite(c.Conn) }

// connQueue is a listener for connections that are accepted already.
type connQueue struct {
	conns chan net.Conn
	done  <-chan struct{}
	addr  net.Addr
}

// Accept returns the next connection.
func (h *connQueue) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close does nothing: the listener ends with done.
func (h *connQueue) Close() error { return nil }

// Addr returns the proxy's address.
func (h *connQueue) Addr() net.Addr { return h.addr }
