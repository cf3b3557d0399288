package room

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestIDsThatAUserNamespaceMaps(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "uid_map")
	require.True(t, mapped(file, 64100), "it is not known")
	for ids, want := range map[string]bool{
		"         0          0 4294967295\n": true, "0 1000 1\n": false, "0 1000 1\n1 100000 65536\n": true, "0 100000 64100\n": false,
		"64100 1 1\n": true,
	} {
		require.NoError(t, os.WriteFile(file, []byte(ids), 0o600))
		require.Equal(t, want, mapped(file, 64100), ids)
	}
}

func TestALackOfMemoryForbidsNoRooms(t *testing.T) {
	t.Parallel()
	for _, e := range []error{unix.EPERM, unix.EINVAL, unix.ENOSYS} {
		require.True(t, Forbids(fmt.Errorf("make a room: %w", e)))
	}
	for _, e := range []error{unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.EIO, context.DeadlineExceeded} {
		require.False(t, Forbids(fmt.Errorf("make a room: %w", e)))
	}
}
