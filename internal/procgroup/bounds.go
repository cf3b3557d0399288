package procgroup

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/room"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
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
	if rooms {
		threads += ", rlimit"
	}
	if l.Cgroups != nil && slices.Contains(l.Cgroups.controllers, "pids") {
		threads += ", cgroup"
	}
	own := unix.Rlimit{Max: room.MaxOpenFiles}
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &own) // it does not fail
	return []spec.Limit{
		{Of: "memory", Most: textfmt.Size(l.MaxMemory), By: memory},
		{Of: "threads", Most: strconv.Itoa(l.MaxThreads), By: threads},
		{Of: "open files of a process", Most: strconv.FormatUint(mostOpenFiles(own.Max), 10), By: "rlimit"},
		{Of: "processors", By: processors},
	}
}

// mostOpenFiles is how many files a process of an agent may have open, by the limit of this process: it can give no more.
func mostOpenFiles(own uint64) uint64 { return min(own, room.MaxOpenFiles) }

// HostThreads is how many threads the cgroups of this process permit in all; zero: no limit is
// known.
func HostThreads() int {
	least := 0
	for _, dir := range ownCgroups() {
		data, _ := os.ReadFile(filepath.Join(dir, "pids.max"))
		if n, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && (least == 0 || n < least) { // not "max"
			least = n
		}
	}
	return least
}

// ownCgroups are the directories of this process's cgroup of version 2 and of those above it.
func ownCgroups() (dirs []string) {
	dir, err := ownCgroup("/proc/self")
	if err != nil {
		return nil
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
	}
	return dirs
}

// HostMemory is how many bytes of memory this process can use: those of the host, or of its
// container.
func HostMemory() int64 {
	most := int64(math.MaxInt64)
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		most = int64(info.Totalram) * int64(info.Unit) //nolint:gosec // the types differ by platform
	}
	files := []string{"/sys/fs/cgroup/memory/memory.limit_in_bytes"} // of version 1, in a container
	for _, dir := range ownCgroups() {
		files = append(files, filepath.Join(dir, "memory.max"))
	}
	for _, file := range files {
		data, _ := os.ReadFile(file)
		if n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err == nil { // not "max"
			most = min(most, n)
		}
	}
	return most
}
