package procgroup

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/secrets"
)

// TestARoomIsStartedWithoutCopyingTheWorker writes to memory after a room has started: each page that
// the kernel had shared with the shim would be a page fault.
func TestARoomIsStartedWithoutCopyingTheWorker(t *testing.T) {
	t.Parallel()
	l := &Launcher{Secrets: secrets.New(nil), MaxOutput: 1 << 20, Threads: Threads{Each: 1000}, MaxFile: 1 << 30}
	if err := l.TryRoom(nil); err != nil {
		t.Skipf("this host permits no rooms: %v", err)
	}
	const pages = 4096
	memory, err := unix.Mmap(-1, 0, pages*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Munmap(memory) })
	require.NoError(t, unix.Madvise(memory, unix.MADV_NOHUGEPAGE))
	runtime.LockOSThread() // faults are counted by thread
	defer runtime.UnlockOSThread()
	faults := func() int64 {
		var before, after unix.Rusage
		require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &before))
		for at := 0; at < len(memory); at += os.Getpagesize() {
			memory[at]++
		}
		require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &after))
		return after.Minflt - before.Minflt
	}
	require.GreaterOrEqual(t, faults(), int64(pages), "the pages are new")
	require.NoError(t, l.TryRoom(nil))
	require.Less(t, faults(), int64(pages/8))
}
