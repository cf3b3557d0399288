package proctree

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Gauge estimates how much memory the descendants of this process use: their own pages, and
// the pages of tmpfs, of files without a disk (memfd) and of System V shared memory. It does not see
// buffers of pipes and sockets, and files of a tmpfs that no process shows.
type Gauge struct {
	// room: this process has namespaces of its own.
	room bool
	// foreign are the devices of the tmpfs that do not count.
	foreign map[uint64]bool
}

// NewGauge makes a gauge. What is mounted now in this process's namespace does not count, except, where this process
// is the first one of a room, the room's shared memory.
func NewGauge(room bool) *Gauge {
	g := &Gauge{room: room, foreign: map[uint64]bool{}}
	for _, at := range tmpfsMounts("/proc/self") {
		if dev, ok := deviceOf(at); ok && (!room || at != sharedMemory) {
			g.foreign[dev] = true
		}
	}
	return g
}

const sharedMemory = "/dev/shm"

// Memory estimates the use in bytes. A quick estimate counts pages that processes share once
// for each; past most, a slower one follows that does not.
func (g *Gauge) Memory(most int64) int64 {
	procs := Below(os.Getpid())
	objects := g.objects(procs)
	estimate := func(read func(pid int) pages) int64 {
		var sum pages
		for _, p := range procs {
			one := read(p.PID)
			sum.own, sum.shared = sum.own+one.own, sum.shared+one.shared
		}
		// Most of what is mapped is counted as an object, too.
		if objects > math.MaxInt64-sum.own {
			return objects
		}
		return sum.own + max(sum.shared, objects)
	}
	if quick := estimate(resident); quick <= most {
		return quick
	}
	return estimate(proportional)
}

// pages are what a process has in memory or in swap, in bytes: its own, and shared ones of no disk.
type pages struct{ own, shared int64 }

// resident counts shared pages as a whole.
func resident(pid int) pages {
	f := fieldsOf(pid, "status")
	return pages{own: f["RssAnon"] + f["VmSwap"], shared: f["RssShmem"]}
}

// proportional counts a page that n processes share as an n-th. Not every process lets
// others read that.
func proportional(pid int) pages {
	f := fieldsOf(pid, "smaps_rollup")
	if _, ok := f["Pss_Anon"]; !ok {
		return resident(pid)
	}
	return pages{own: f["Pss_Anon"] + f["SwapPss"], shared: f["Pss_Shmem"]}
}

// fieldsOf reads a file of lines like "RssAnon:  120 kB". The name of a process has no line break there.
func fieldsOf(pid int, file string) map[string]int64 {
	data, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + file)
	found := map[string]int64{}
	for line := range bytes.Lines(data) {
		name, rest, _ := bytes.Cut(line, []byte(":"))
		f := bytes.Fields(rest)
		if len(f) != 2 || string(f[1]) != "kB" {
			continue
		}
		if n, err := strconv.ParseInt(string(f[0]), 10, 64); err == nil {
			found[string(name)] = n << 10
		}
	}
	return found
}

// objects adds up what is in memory whether it is mapped or not.
func (g *Gauge) objects(procs []Process) (sum int64) {
	counted := map[[2]uint64]bool{}
	once := func(dev, file uint64, bytes int64) {
		if id := [2]uint64{dev, file}; !counted[id] {
			counted[id] = true
			sum = addUp(sum, bytes)
		}
	}
	// tmpfs counts the whole file system at a path.
	tmpfs := func(path string) {
		if dev, ok := deviceOf(path); ok && !g.foreign[dev] {
			once(dev, 0, usedOf(path))
		}
	}
	if g.room {
		tmpfs(sharedMemory)
		sum = addUp(sum, systemV())
	}
	own, _ := os.Readlink("/proc/self/ns/mnt")
	seen := map[string]bool{own: true}
	for _, p := range procs {
		proc := "/proc/" + strconv.Itoa(p.PID)
		if ns, err := os.Readlink(proc + "/ns/mnt"); err == nil && !seen[ns] {
			seen[ns] = true
			for _, at := range tmpfsMounts(proc) {
				tmpfs(proc + "/root" + at)
			}
		}
		for _, link := range links(proc + "/fd") {
			target, err := os.Readlink(link)
			var stat unix.Stat_t
			switch {
			case err != nil || !strings.HasPrefix(target, "/"): // a pipe or a socket
			case !strings.HasPrefix(target, "/memfd:"):
				tmpfs(link)
			case unix.Stat(link, &stat) == nil:
				once(stat.Dev, stat.Ino, stat.Blocks*512)
			}
		}
	}
	return sum
}

// addUp adds without overflow.
func addUp(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// deviceOf is the device of the tmpfs at a path; not ok: there is none.
func deviceOf(path string) (dev uint64, ok bool) {
	var fs unix.Statfs_t
	var stat unix.Stat_t
	if unix.Statfs(path, &fs) != nil || fs.Type != unix.TMPFS_MAGIC || unix.Stat(path, &stat) != nil {
		return 0, false
	}
	return stat.Dev, true
}

// usedOf is how many bytes a tmpfs has. One without a size does not say, and counts as more than any
// limit: nobody needs it.
func usedOf(path string) int64 {
	var fs unix.Statfs_t
	if unix.Statfs(path, &fs) != nil {
		return 0
	}
	if fs.Blocks == 0 {
		return math.MaxInt64
	}
	return int64(fs.Blocks-fs.Bfree) * fs.Bsize //nolint:gosec // the types differ by platform
}

// tmpfsMounts lists where a process has mounted a tmpfs.
func tmpfsMounts(proc string) (at []string) {
	f, err := os.Open(proc + "/mountinfo")
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// 36 35 0:53 / /dev/shm rw,nosuid shared:1 - tmpfs tmpfs rw,size=1g
		mount, kind, ok := strings.Cut(lines.Text(), " - ")
		if fields := strings.Fields(mount); ok && strings.HasPrefix(kind, "tmpfs ") && len(fields) > 4 {
			at = append(at, unescape(fields[4]))
		}
	}
	return at
}

// unescape replaces \040 and the like, as mountinfo has them.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

func links(dir string) (paths []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		paths = append(paths, dir+"/"+e.Name())
	}
	return paths
}

// systemV is what shared memory of System V takes up in this IPC namespace.
func systemV() (sum int64) {
	data, _ := os.ReadFile("/proc/sysvipc/shm")
	const resident, swapped = 14, 15
	for line := range bytes.Lines(data) {
		f := bytes.Fields(line)
		if len(f) <= swapped {
			continue
		}
		for _, field := range f[resident : swapped+1] {
			if n, err := strconv.ParseInt(string(field), 10, 64); err == nil { // the first line has names
				sum = addUp(sum, n)
			}
		}
	}
	return sum
}
