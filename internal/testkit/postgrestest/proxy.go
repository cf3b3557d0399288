package postgrestest

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Cut says where a proxy cuts a connection.
type Cut int

const (
	// BeforeCommit loses the request to commit.
	BeforeCommit Cut = iota + 1
	// AfterCommit loses the reply: the server has committed.
	AfterCommit
)

// Proxy passes connections on to a server, cuts them, and loses their packets.
type Proxy struct {
	// Address is its host and port.
	Address string
	to      string

	mu   sync.Mutex
	next Cut
	cuts int
	down bool
	// silent is held to write while bytes are kept back.
	silent sync.RWMutex
	open   map[net.Conn]bool
}

// StartProxy starts a proxy to an address, which ends with the test.
func StartProxy(t *testing.T, to string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &Proxy{Address: l.Addr().String(), to: to, open: map[net.Conn]bool{}}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.pass(c)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		p.SetDown(true)
	})
	return p
}

// CutNext cuts the connection of the next transaction that commits.
func (p *Proxy) CutNext(where Cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = where
}

// Cuts is how many connections were cut at a commit.
func (p *Proxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// SetDown cuts all connections, and refuses new ones, until it is called with false.
func (p *Proxy) SetDown(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
	for c := range p.open {
		if down {
			_ = c.Close()
		}
	}
}

// Silence keeps back what both sides send, and closes nothing, until the returned function is called: as a network that loses
// packets.
func (p *Proxy) Silence() (end func()) {
	p.silent.Lock()
	return p.silent.Unlock
}

// write passes bytes on.
func (p *Proxy) write(to net.Conn, b []byte) error {
	p.silent.RLock()
	defer p.silent.RUnlock()
	_, err := to.Write(b)
	return err
}

func (p *Proxy) pass(client net.Conn) {
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		_ = client.Close()
		return
	}
	defer p.remove(client, server)
	if !p.add(client, server) {
		return
	}
	replies := make(chan Cut, 1)
	go func() {
		defer client.Close() //nolint:errcheck // it is cut
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			select {
			case <-replies: // this is the reply to the commit
				return
			default:
			}
			if failed := p.write(client, buf[:n]); err != nil || failed != nil {
				return
			}
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		switch cut := p.cutAt(buf[:n]); cut {
		case BeforeCommit:
			return
		case AfterCommit:
			replies <- cut
		}
		if failed := p.write(server, buf[:n]); err != nil || failed != nil {
			return
		}
	}
}

// cutAt is where to cut a connection on which these bytes were sent; zero: nowhere.
func (p *Proxy) cutAt(sent []byte) Cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	cut := p.next
	if cut == 0 || !bytes.Contains(bytes.ToLower(sent), []byte("commit\x00")) {
		return 0
	}
	p.next = 0
	p.cuts++
	return cut
}

func (p *Proxy) add(both ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range both {
		p.open[c] = true
	}
	return !p.down
}

func (p *Proxy) remove(both ...io.Closer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range both {
		_ = c.Close()
		delete(p.open, c.(net.Conn)) //nolint:forcetypeassert // as it was added
	}
}
