package httpserver

import (
	"math"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds are how many connections of a listener may be open. Further ones are closed at once, or replace others.
type Bounds struct {
	// All is their number, and Peer that of one [Network].
	All, Peer int
	// Reserved: they do not count against the share of the process, so that they can be made
	// when other listeners have used it up.
	Reserved bool
	// Replaced: a further connection closes the oldest one of its peer, or else of the peer with the most, that waits for
	// a request, so that idle ones keep nobody out. [Server] says which wait.
	Replaced bool
	// Full is called for each connection that is closed because too many are open; nil: nothing is.
	Full func()
}

var (
	// roomBounds are those of a listener that serves one room or attempt.
	roomBounds = Bounds{All: 256, Peer: 256}
	// serverBounds are those of a server for people and programs.
	serverBounds = Bounds{All: 4096, Peer: 1024, Replaced: true}
	// probeBounds are those of a server of health and metrics.
	probeBounds = Bounds{All: 48, Peer: 16, Reserved: true, Replaced: true}
)

// share counts the connections of all listeners of the process. They may use half of its
// descriptors: the store, child processes and health need the others.
var share struct {
	sync.Mutex
	open int
}

// shareLimit is the share as a number of descriptors.
func shareLimit() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil || limit.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur / 2)
}

// ForRoom bounds the connections of a listener that serves one room or attempt.
func ForRoom(l net.Listener, full func()) net.Listener {
	b := roomBounds
	b.Full = full
	return Bound(l, b)
}

// Bound bounds the connections of a listener.
func Bound(l net.Listener, b Bounds) net.Listener {
	return &boundListener{Listener: l, bounds: b, limit: shareLimit(), peers: map[string][]*boundConn{}}
}

type boundListener struct {
	net.Listener
	bounds Bounds
	limit  int
	mu     sync.Mutex
	open   int
	// peers has the connections of each peer, the oldest first.
	peers map[string][]*boundConn
}

// Accept waits for the next connection within the bounds.
func (l *boundListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		bound := &boundConn{Conn: c, of: l, peer: peerOf(c)}
		if l.begin(bound) {
			return bound, nil
		}
		_ = c.Close()
		if l.bounds.Full != nil {
			l.bounds.Full()
		}
	}
}

// peerOf is the [Network] of a connection's peer.
func peerOf(c net.Conn) string {
	addr := c.RemoteAddr()
	if addr == nil {
		return ""
	}
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil { // a socket without addresses
		return addr.Network()
	}
	return Network(host)
}

// Network is what one client is likely to have at its disposal: all addresses of this host's loopback device, an IPv4
// address, or a network of 64 bits of IPv6.
func Network(client string) string {
	addr, err := netip.ParseAddr(client)
	if err != nil {
		return client
	}
	addr = addr.Unmap()
	switch {
	case addr.IsLoopback():
		return "loopback"
	case addr.Is4():
		return addr.String()
	}
	return netip.PrefixFrom(addr.WithZone(""), 64).Masked().String()
}

// begin counts a connection. It may close another one for it.
func (l *boundListener) begin(c *boundConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.admits(c.peer) {
		old := l.replaceable(c.peer)
		if old == nil {
			return false
		}
		l.remove(old)
		_ = old.Conn.Close() // whoever serves it finds it closed
		if !l.admits(c.peer) {
			return false
		}
	}
	l.open++
	l.peers[c.peer] = append(l.peers[c.peer], c)
	return true
}

// admits counts one more connection in the share, if there may be one of a peer.
func (l *boundListener) admits(peer string) bool {
	return l.open < l.bounds.All && len(l.peers[peer]) < l.bounds.Peer && l.takeShare()
}

// replaceable returns the connection that makes room for one of a peer; nil: none does.
func (l *boundListener) replaceable(peer string) (found *boundConn) {
	most, own := 0, len(l.peers[peer]) >= l.bounds.Peer
	for of, conns := range l.peers {
		if !l.bounds.Replaced || own && of != peer || len(conns) <= most {
			continue
		}
		if i := slices.IndexFunc(conns, func(c *boundConn) bool { return !c.answering.Load() }); i >= 0 {
			found, most = conns[i], len(conns)
		}
	}
	return found
}

// takeShare counts one more connection of the process, if there may be one.
func (l *boundListener) takeShare() bool {
	if l.bounds.Reserved {
		return true
	}
	share.Lock()
	defer share.Unlock()
	if share.open >= l.limit {
		return false
	}
	share.open++
	return true
}

// remove ends the count of a connection, once.
func (l *boundListener) remove(c *boundConn) {
	i := slices.Index(l.peers[c.peer], c)
	if i < 0 {
		return
	}
	l.open--
	if l.peers[c.peer] = slices.Delete(l.peers[c.peer], i, i+1); len(l.peers[c.peer]) == 0 {
		delete(l.peers, c.peer)
	}
	if !l.bounds.Reserved {
		share.Lock()
		share.open--
		share.Unlock()
	}
}

const (
	// writeLimit is how long a peer may take to read a piece of what is written: one that reads no
	// more is disconnected.
	writeLimit = time.Minute
	// writePiece is the size of a piece, in bytes.
	writePiece = 64 << 10
)

// boundConn is a connection that counts until it is closed.
type boundConn struct {
	net.Conn
	of   *boundListener
	peer string
	// answering: a handler has a request of it.
	answering atomic.Bool

	mu sync.Mutex
	// deadline: the server has set its own.
	deadline bool
}

// Write writes piece by piece.
func (c *boundConn) Write(p []byte) (n int, err error) {
	for {
		c.mu.Lock()
		if !c.deadline {
			_ = c.Conn.SetWriteDeadline(time.Now().Add(writeLimit)) //nolint:forbidigo // deadlines of connections are in real time
		}
		c.mu.Unlock()
		written, err := c.Conn.Write(p[n:min(n+writePiece, len(p))])
		n += written
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

// SetWriteDeadline replaces the limit of each write by a deadline; none restores it.
func (c *boundConn) SetWriteDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = !at.IsZero()
	return c.Conn.SetWriteDeadline(at)
}

// SetDeadline is SetWriteDeadline for both directions.
func (c *boundConn) SetDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = !at.IsZero()
	return c.Conn.SetDeadline(at)
}

// Close closes the connection.
func (c *boundConn) Close() error {
	err := c.Conn.Close()
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.remove(c)
	return err
}

// CloseWrite closes the direction to the peer.
func (c *boundConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
