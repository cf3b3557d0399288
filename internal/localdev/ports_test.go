package localdev

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPortThatIsInUseIsRefusedWithItsFlag(t *testing.T) {
	t.Parallel()
	require.NoError(t, checkPort(t.Context(), "port", 0))
	taken, err := net.Listen("tcp", net.JoinHostPort(Loopback, "0"))
	require.NoError(t, err)
	port := portOf(taken.Addr().String())
	require.NotZero(t, port)
	require.ErrorContains(t, checkPort(t.Context(), "ui-port", port), "choose another port with --ui-port")
	require.NoError(t, taken.Close())
}

func TestADirectoryIsOneProcesss(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state", "temporal")
	release, err := occupy(dir, 4711)
	require.NoError(t, err)
	_, err = occupy(dir, 4712)
	require.ErrorContains(t, err, "(process 4711) is running on "+filepath.Dir(dir))
	release()
	release, err = occupy(dir, 4712)
	require.NoError(t, err)
	release()
}

func TestTheServersProgramIsBesideOurOwn(t *testing.T) {
	t.Parallel()
	_, err := FindServer(filepath.Join(t.TempDir(), "maestro"))
	require.ErrorContains(t, err, "maestro-server is not in the directory of this program")
}
