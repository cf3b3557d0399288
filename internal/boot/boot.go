// Package boot identifies the current start of the host. Files that were written before it, and not
// synced, may be incomplete after a power loss.
package boot

import (
	"os"
	"strings"
	"sync"
)

// ID returns an identifier that changes with each start of the host. The error is that of reading it.
func ID() (string, error) { return id() }

var id = sync.OnceValues(func() (string, error) { // it does not change while a process runs
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
})
