// Package proctest has what tests share that start programs: ports for servers that
// cannot be told to take whichever is free, and what programs have printed so far.
package proctest

import (
	"bytes"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// The range is below those that systems take ports for outgoing connections from: a
// port there could be gone before the server that it is for has started.
const (
	least = 12_000
	most  = 32_000
)

// FreePort returns a TCP port of 127.0.0.1 that nobody listens on.
func FreePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(least + rand.IntN(most-least)) //nolint:gosec // any will do
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatalf("give port %s back: %s", port, err)
		}
		return port
	}
	t.Fatalf("no port between %d and %d is free", least, most)
	return ""
}

// Output is what a program has printed so far. It may be read while the program writes.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write adds to the output.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// String is the output so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
