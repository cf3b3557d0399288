package procgroup

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/sandbox/proctree"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

const (
	// maxThreads is the largest number of running threads of an agent or check with its descendants.
	// It is far more than builds and test suites need, and small enough to stop a fork bomb while the
	// host still responds.
	maxThreads = 8192
	// minThreads is the smallest such number, and fewThreads the one below which programs may fail.
	minThreads, fewThreads = 32, 256
	// ownThreads is how many threads are left for the worker, or a quarter of what is free.
	ownThreads = 512
	// reservedPIDs are never given to a process once the kernel begins again with small numbers.
	reservedPIDs = 300
)

// Threads are the limits of threads.
type Threads struct {
	// Each is how many threads a process may have with its descendants.
	Each int
	// OfUser is how many threads the processes' user may have in all, where nothing else separates attempts.
	OfUser uint64
	// Least is the limit of the host that leaves the least.
	Least ThreadLimit
	// attempts is for how many attempts that is enough.
	attempts int
}

// ThreadLimit is a limit of the host on the threads of all processes together, or of all of a user or a cgroup.
type ThreadLimit struct {
	Name string
	// Most is the limit, and Free how many of them others than agents leave.
	Most, Free int
}

// ShareThreads shares the threads that every limit of the host permits: so many attempts run side by side, as a user, and
// none of them may stop the others or this process.
func ShareThreads(attempts, uid int) Threads {
	below := proctree.Threads(proctree.Below(os.Getpid())) // agents that are at work
	attempts += max(attempts/4, 1)                         // checks of merged work
	t := Threads{Least: least(threadLimits("/proc/self", uid, below)), attempts: attempts}
	t.Each = threadsOf(t.Least.Free, attempts)
	t.OfUser = uint64(max(threadsOfUser(uid)-below, 0)) + uint64(attempts)*room.HardThreads(t.Each) //nolint:gosec // not negative
	return t
}

// Few reports whether programs may fail, because each attempt has few threads.
func (t Threads) Few() bool { return t.Each < fewThreads }

// String says what the limit comes from.
func (t Threads) String() string {
	return fmt.Sprintf("%s of %d leaves %d for %d attempts and the worker", t.Least.Name, t.Least.Most, t.Least.Free, t.attempts)
}

// threadsOf returns how many threads an attempt may have, if so many are free for so many attempts.
func threadsOf(free, attempts int) int {
	share := (free - min(ownThreads, free/4)) / max(attempts, 1)
	return max(minThreads, min(maxThreads, room.ThreadsWithin(share)))
}

func least(limits []ThreadLimit) ThreadLimit {
	found := ThreadLimit{Name: "the kernel", Most: math.MaxInt32, Free: math.MaxInt32}
	for _, l := range limits {
		if l.Free < found.Free {
			found = l
		}
	}
	return found
}

// threadLimits lists the limits of a process, by its directory in /proc, of its cgroups, and of the user of agents. below
// is how many threads are not to be counted as used.
func threadLimits(proc string, uid, below int) (found []ThreadLimit) {
	add := func(name string, most, used int) {
		if most > 0 {
			found = append(found, ThreadLimit{name, most, max(most-max(used-below, 0), 0)})
		}
	}
	all := proctree.Threads(proctree.All())
	add("kernel.pid_max", numberIn("/proc/sys/kernel/pid_max")-reservedPIDs, all)
	add("kernel.threads-max", numberIn("/proc/sys/kernel/threads-max"), all)
	var own unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NPROC, &own) == nil && own.Cur < math.MaxInt32 {
		add("`ulimit -u`", int(own.Cur), max(threadsOfUser(os.Getuid()), threadsOfUser(uid)))
	}
	for _, controller := range []string{"", "pids"} {
		for _, dir := range cgroupsOf(proc, controller) {
			add("pids.max of "+dir, numberIn(filepath.Join(dir, "pids.max")), numberIn(filepath.Join(dir, "pids.current")))
		}
	}
	return found
}

// numberIn reads a number from a file; zero: there is none, or no limit.
func numberIn(file string) int {
	data, _ := os.ReadFile(file)
	n, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	return n
}

// threadsOfUser counts the threads of all processes of a user.
func threadsOfUser(uid int) (sum int) {
	for _, p := range proctree.All() {
		if owner, ok := proctree.User(p.PID); ok && owner == uid {
			sum += p.Threads
		}
	}
	return sum
}
