package cli_test

import (
	"io"
	"net"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"
)

// wire is a connection to the desk's Temporal that can be cut.
type wire struct {
	address string
	target  string

	mu      sync.Mutex
	severed bool
	open    map[net.Conn]bool
}

// wire listens before the desk's Temporal until the test ends.
func (d *desk) wire() *wire {
	d.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(d.t, err)
	w := &wire{address: l.Addr().String(), open: map[net.Conn]bool{}}
	for _, entry := range d.environ {
		if address, ok := strings.CutPrefix(entry, "TEMPORAL_ADDRESS="); ok {
			w.target = address
		}
	}
	d.t.Cleanup(func() {
		_ = l.Close()
		w.cut()
	})
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go w.carry(near)
		}
	}()
	return w
}

// carry copies both ways between a connection and the target.
func (w *wire) carry(near net.Conn) {
	far, err := net.Dial("tcp", w.target)
	if err != nil || !w.keep(near, far) {
		_ = near.Close()
		return
	}
	go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
	_, _ = io.Copy(near, far)
	_ = near.Close()
}

// keep notes open connections; where the wire is cut it closes them.
func (w *wire) keep(near, far net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.severed {
		_ = far.Close()
		return false
	}
	w.open[near], w.open[far] = true, true
	return true
}

// cut closes what is open, and lets nothing through until it is fixed.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.severed = true
	for c := range w.open {
		_ = c.Close()
	}
	clear(w.open)
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.severed = false
}
