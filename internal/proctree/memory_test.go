package proctree

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMountsBehindALongLine reads what a process has mounted after an overlay of many directories.
func TestMountsBehindALongLine(t *testing.T) {
	t.Parallel()
	proc := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(proc, "mountinfo"), []byte(`36 35 0:53 / /dev/shm rw,nosuid shared:1 - tmpfs tmpfs rw,size=1g
37 35 0:54 / /o rw - overlay none rw,lowerdir=`+strings.Repeat("/a - tmpfs /b 0:1 / /c ", 20_000)+`
38 35 0:300 / /a\040b rw - tmpfs tmpfs rw,size=1g
39 35 0:55 / /r rw - ramfs none rw
40 35 0:x / /x rw - tmpfs none rw
`), 0o600))
	require.Equal(t, []memoryMount{
		{at: "/dev/shm", device: unix.Mkdev(0, 53)}, {at: "/a b", device: unix.Mkdev(0, 300)}, {at: "/r", device: unix.Mkdev(0, 55), ramfs: true},
	}, memoryMounts(proc))
}

func TestTooManyOpenFilesCountAsTooMuch(t *testing.T) {
	t.Parallel()
	o := objects{counted: map[[2]uint64]bool{}}
	o.addFiles(make([]string, maxFiles))
	require.Zero(t, o.sum)
	o.addFiles(make([]string, 1))
	require.EqualValues(t, math.MaxInt64, o.sum)
}
