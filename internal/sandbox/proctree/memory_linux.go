package proctree

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Memory estimates how much memory the pages of processes use, in bytes: those without a file on
// disk, in memory and swap, with their page tables. It does not count files in memory that no process has mapped,
// and what the kernel keeps for a process: only a cgroup does.
//
// The quick estimate counts a shared page once for each process. If that is more than most, a slower one divides it
// among the processes.
func Memory(procs []Process, most int64) (sum int64) {
	for _, p := range procs {
		sum += resident(p.Dir())
	}
	if sum <= most {
		return sum
	}
	sum = 0
	for _, p := range procs {
		if !sharesMemory(p.PID, p.Parent) {
			sum += proportional(p.Dir())
		}
	}
	return sum
}

// sharesMemory reports whether two processes have one memory, as a process and its child have between vfork and exec. Not
// every process lets others find out.
func sharesMemory(a, b int) bool {
	const kcmpVM = 1
	order, _, err := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), kcmpVM, 0, 0, 0)
	return err == 0 && order == 0
}

// resident counts a shared page as a whole.
func resident(dir string) int64 {
	f := kilobytes(dir, "status")
	return f["RssAnon"] + f["RssShmem"] + f["VmSwap"] + f["VmPTE"]
}

// proportional counts a page that n processes share as an n-th. Not every process lets others read that.
func proportional(dir string) int64 {
	f := kilobytes(dir, "smaps_rollup")
	if _, ok := f["Pss_Anon"]; !ok {
		return resident(dir)
	}
	return f["Pss_Anon"] + f["Pss_Shmem"] + f["SwapPss"] + kilobytes(dir, "status")["VmPTE"]
}

// kilobytes reads a file of lines like "RssAnon:  120 kB", in bytes. The name of a process has no line break there.
func kilobytes(dir, file string) map[string]int64 {
	data, _ := os.ReadFile(dir + "/" + file)
	found := map[string]int64{}
	for line := range bytes.Lines(data) {
		f := bytes.Fields(line)
		if len(f) != 3 || string(f[2]) != "kB" {
			continue
		}
		if n, err := strconv.ParseInt(string(f[1]), 10, 64); err == nil {
			found[string(bytes.TrimSuffix(f[0], []byte(":")))] = n << 10
		}
	}
	return found
}
