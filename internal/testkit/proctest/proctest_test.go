package proctest_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// TestFreePort has servers listen on a port one after the other.
func TestFreePort(t *testing.T) {
	t.Parallel()
	address := net.JoinHostPort("127.0.0.1", proctest.FreePort(t))
	for range 2 {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}
