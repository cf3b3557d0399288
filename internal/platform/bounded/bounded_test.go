package bounded_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/platform/bounded"
)

func TestAFileIsReadUpToItsLimit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, make([]byte, 2048), 0o600))
	data, err := bounded.ReadFile(path, 2048)
	require.NoError(t, err)
	require.Len(t, data, 2048)
	for _, large := range []string{path, "/dev/zero"} {
		_, err = bounded.ReadFile(large, 2047)
		require.EqualError(t, err, large+" is larger than 1 KiB, which is the most that is read")
	}
	_, err = bounded.ReadFile(path+".absent", 1)
	require.ErrorIs(t, err, fs.ErrNotExist)
}
