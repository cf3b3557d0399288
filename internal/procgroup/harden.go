package procgroup

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Harden protects this process, a worker, from the agents that it runs: its
// memory and environment, which hold secrets, cannot be read by other processes
// of the same user, and it adopts what an agent leaves that killed its shim, so
// that it can be killed, too. Call it once, in a worker's main, after [Shim].
//
// A process that adopts must not wait for children that it did not start, and
// must not start children in sessions of their own while agents run: after the
// death of a shim they would be taken for its orphans.
func Harden() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make the worker undumpable: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("make the worker a subreaper: %w", err)
	}
	return nil
}
