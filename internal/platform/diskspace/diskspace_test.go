package diskspace

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestWhatIsLeft(t *testing.T) {
	t.Parallel()
	const block = 4096
	for name, c := range map[string]struct {
		disk unix.Statfs_t
		low  bool
	}{
		"roomy": {
			unix.Statfs_t{Bsize: block, Blocks: 1 << 30, Bavail: 1 << 20, Files: 1 << 30, Ffree: 1 << 20},
			false,
		},
		"few bytes": {unix.Statfs_t{Bsize: block, Blocks: 1 << 30, Bavail: 1 << 10, Files: 1 << 30, Ffree: 1 << 20}, true},
		"few files": {unix.Statfs_t{Bsize: block, Blocks: 1 << 30, Bavail: 1 << 20, Files: 1 << 30, Ffree: 1 << 10}, true},
		"small and empty": {
			unix.Statfs_t{Bsize: block, Blocks: 1 << 10, Bavail: 1 << 10, Files: 1 << 10, Ffree: 1 << 10},
			false,
		},
		"btrfs counts no files": {unix.Statfs_t{Bsize: block, Blocks: 1 << 30, Bavail: 1 << 20}, false},
		"CephFS knows no limit": {
			unix.Statfs_t{Bsize: block, Blocks: 1 << 30, Bavail: 1 << 20, Files: 1 << 20, Ffree: ^uint64(0)},
			false,
		},
		"CephFS with few bytes": {
			unix.Statfs_t{Bsize: block, Blocks: 1 << 30, Bavail: 1 << 10, Files: 1 << 20, Ffree: ^uint64(0)},
			true,
		},
		"CephFS counts no files": {
			unix.Statfs_t{Bsize: block, Blocks: 1 << 30, Bavail: 1 << 20, Files: ^uint64(0), Ffree: ^uint64(0)},
			false,
		},
	} {
		require.Equal(t, c.low, leftOf(&c.disk).IsLow(), name)
	}
}
