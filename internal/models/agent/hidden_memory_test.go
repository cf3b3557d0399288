package agent

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// holdTables has page tables with nothing but the page of zeros.
func holdTables(size int) error {
	const page, table = 4096, 2 << 20
	data, err := unix.Mmap(-1, 0, size/page*table, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err == nil {
		err = unix.Madvise(data, unix.MADV_NOHUGEPAGE)
	}
	for i := 0; i < len(data) && err == nil; i += table {
		if data[i] != 0 {
			return fmt.Errorf("byte %d is not zero", i)
		}
	}
	return err
}

// endFirstThread takes memory and ends the first thread.
func endFirstThread() error {
	runtime.LockOSThread()
	if err := hold(unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, -1, hogged); err != nil {
		return err
	}
	go func() { time.Sleep(time.Hour) }()
	_, _, errno := unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	return errno
}
