package procgroup

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

// Bounds lists the limits of processes, and what enforces them. rooms: the processes run in rooms.
// noCgroups is the reason why there are no cgroups; nil if there are.
func (l *Launcher) Bounds(rooms bool, noCgroups error) []spec.Limit {
	memory, processors := "measured by the shim", fmt.Sprintf("nice %d", room.Niceness)
	if l.Cgroups != nil {
		memory = "cgroups in " + l.Cgroups.dir
		if slices.Contains(l.Cgroups.controllers, "cpu") {
			processors += ", cgroup weight " + agentWeight
		}
	} else if noCgroups != nil {
		memory += fmt.Sprintf(", because %v", noCgroups)
	}
	threads := "counted by the shim"
	if rooms || os.Geteuid() != 0 || l.User != nil {
		threads += ", rlimit"
	}
	if l.Cgroups != nil && slices.Contains(l.Cgroups.controllers, "pids") {
		threads += ", cgroup"
	}
	if l.Threads.Least.Name != "" {
		threads += "; " + l.Threads.String()
	}
	own := unix.Rlimit{Max: room.MaxOpenFiles}
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &own) // it does not fail
	limits := []spec.Limit{
		{Of: "memory", Most: textfmt.Size(l.MaxMemory), By: memory},
		{Of: "threads", Most: strconv.Itoa(l.Threads.Each), By: threads},
		{Of: "open files of a process", Most: strconv.FormatUint(mostOpenFiles(own.Max), 10), By: "rlimit"},
		{Of: "processors", By: processors},
	}
	if l.Cgroups == nil {
		limits = append(limits, spec.Limit{
			Of:   "memory that no process has mapped",
			Most: "without bound for tmpfs mounts, memfd and System V objects, buffers of pipes and sockets",
			By:   "nothing, because there is no cgroup",
		})
	}
	return limits
}

// mostOpenFiles is how many files a process of an agent may have open, by the limit of this process: it can give no more.
func mostOpenFiles(own uint64) uint64 { return min(own, room.MaxOpenFiles) }

// HostMemory is how many bytes of memory this process can use: those of the host, or of its
// container.
func HostMemory() int64 {
	most := int64(math.MaxInt64)
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		most = int64(info.Totalram) * int64(info.Unit) //nolint:gosec // the types differ by platform
	}
	for controller, file := range map[string]string{"": "memory.max", "memory": "memory.limit_in_bytes"} {
		for _, dir := range cgroupsOf("/proc/self", controller) {
			if n := numberIn(filepath.Join(dir, file)); n > 0 { // not "max"
				most = min(most, int64(n))
			}
		}
	}
	return most
}
