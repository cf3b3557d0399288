// Package porttest finds ports for servers that tests start as programs, which
// cannot be told to take whichever is free.
package porttest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// The range is below those that systems take ports for outgoing connections from: a
// port there could be gone before the server that it is for has started.
const (
	least = 12_000
	most  = 32_000
)

// Free returns a TCP port of 127.0.0.1 that nobody listens on.
func Free(t *testing.T) string {
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
