package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/maestro-hive/maestro/internal/sandbox/proctree"
)

// clockTick is the unit of /proc/PID/stat: a hundredth of a second on Linux.
const clockTick = 10 * time.Millisecond

// statOf are the fields of /proc/PID/stat that follow the name, from the state on; nil: there is no such process.
func statOf(pid int) []string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	// The name, in parentheses, may hold spaces.
	return strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
}

// tree is a process and all below it.
func tree(root int) []int {
	all := []int{root}
	for _, p := range proctree.Below(root) {
		all = append(all, p.PID)
	}
	return all
}

// cpuBelow is the processor time that a process and those below it have used, with the ended ones.
func cpuBelow(root int) (sum time.Duration) {
	for _, pid := range tree(root) {
		if fields := statOf(pid); fields != nil {
			for _, f := range fields[11:15] {
				ticks, _ := strconv.Atoi(f)
				sum += time.Duration(ticks) * clockTick
			}
		}
	}
	return sum
}

// memoryBelow is what a process and those below it have in memory, in MB. Shared pages count once.
func memoryBelow(root int) (megabytes float64) {
	for _, pid := range tree(root) {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid)) // it may have ended
		for line := range strings.Lines(string(data)) {
			if fields := strings.Fields(line); fields[0] == "Pss:" {
				kib, _ := strconv.ParseFloat(fields[1], 64)
				megabytes += kib * 1024 / 1e6
			}
		}
	}
	return megabytes
}

// ownCPU is the processor time of this process and of the children that it has
// waited for: the shims and what ran behind them.
func ownCPU() time.Duration {
	var sum time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return sum
}

// memory is what a process has in memory, in bytes.
func memory(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
