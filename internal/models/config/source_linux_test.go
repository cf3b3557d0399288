package config

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestWhatIsClosedIsNamed has a file, or a directory above it, that another user may not read, as in a container.
func TestWhatIsClosedIsNamed(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root has files that this process may not read")
	}
	dir, err := os.MkdirTemp("/tmp", "closed")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	above, file := filepath.Join(dir, "above"), filepath.Join(dir, "agents.yaml")
	require.NoError(t, os.MkdirAll(filepath.Join(above, "below"), 0o700))
	for _, name := range []string{file, filepath.Join(above, "below", "agents.yaml")} {
		require.NoError(t, os.WriteFile(name, []byte("version: 1\n"), 0o600))
	}
	require.NoError(t, os.Chmod(dir, 0o755))
	for name, closed := range map[string]string{file: file, filepath.Join(above, "below", "agents.yaml"): above} {
		said := make(chan error)
		go func() {
			runtime.LockOSThread() // the thread ends with another user than the others have
			_ = unix.Setfsuid(65534)
			_, err := LoadWorker(name)
			said <- err
		}()
		require.ErrorContains(t, <-said, name+": may not be read by user 0; let its owner run: chmod -R go+rX "+closed)
	}
}
