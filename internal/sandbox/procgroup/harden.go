package procgroup

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Harden protects this process, a worker, from the agents that it runs: its
// memory and environment, which hold secrets, cannot be read by other processes
// of the same user. It becomes the parent of the processes of an agent that killed
// its shim, so that it can kill them. Call it once, in a worker's main, after [room.Shim].
//
// A subreaper must not wait for children that it did not start, and
// must not start children in sessions of their own while agents run: after the
// death of a shim they would be killed as its orphans.
func Harden() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make the worker undumpable: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("make the worker a subreaper: %w", err)
	}
	return nil
}
