package procgroup

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

// TestOpenFilesOfAProcess: what is said is not more than this process has to give.
func TestOpenFilesOfAProcess(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, 20_000, mostOpenFiles(20_000))
	require.EqualValues(t, room.MaxOpenFiles, mostOpenFiles(math.MaxUint64))
	var own unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &own))
	require.Equal(t, fmt.Sprintf("open files of a process %d (rlimit)", mostOpenFiles(own.Max)), new(Launcher).Bounds(false, nil)[2].String())
}
