package procgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/sandbox/proctree"
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
	if !proctree.ShowsUse {
		threads += ", each process as one"
	}
	if rooms || os.Geteuid() != 0 || l.User != nil {
		threads += ", rlimit"
	}
	if l.Cgroups != nil && slices.Contains(l.Cgroups.controllers, "pids") {
		threads += ", cgroup"
	}
	if l.Threads.Least.Name != "" {
		threads += "; " + l.Threads.String()
	}
	limits := []spec.Limit{
		{Of: "memory", Most: textfmt.Size(l.MaxMemory), By: memory},
		{Of: "threads", Most: strconv.Itoa(l.Threads.Each), By: threads},
		{Of: "open files of a process", Most: strconv.FormatUint(room.Limit(unix.RLIMIT_NOFILE, room.MaxOpenFiles), 10), By: "rlimit"},
		{Of: "processors", By: processors},
	}
	switch {
	case !proctree.ShowsUse:
		limits[0] = spec.Limit{Of: "memory", Most: "without bound", By: "nothing, because this system has neither cgroups nor /proc"}
	case l.Cgroups == nil:
		limits = append(limits, spec.Limit{
			Of:   "memory that no process has mapped",
			Most: "without bound for tmpfs mounts, memfd and System V objects, buffers of pipes and sockets",
			By:   "nothing, because there is no cgroup",
		})
	}
	return limits
}

// HostMemory is how many bytes of memory this process can use: those of the host, or of its
// container.
func HostMemory() int64 {
	most := installedMemory()
	for controller, file := range map[string]string{"": "memory.max", "memory": "memory.limit_in_bytes"} {
		for _, dir := range cgroupsOf("/proc/self", controller) {
			if n := numberIn(filepath.Join(dir, file)); n > 0 { // not "max"
				most = min(most, int64(n))
			}
		}
	}
	return most
}
