package proctree

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Gauge estimates how much memory the descendants of this process use: their own pages with the tables of these, and
// the pages and names of tmpfs, the pages of files without a disk (memfd) and of System V shared memory. It does not count
// buffers of pipes and sockets, and a tmpfs that another mount covers or no process has mounted, unless a process has a
// file of it open. A ramfs, a tmpfs without a size, and more than [maxMounts] count as [Immeasurable]: the kernel does not
// report their size, and agents do not need them.
//
// File systems that this process sees mounted do not count, except, where it is the first process of a room, the
// room's shared memory.
type Gauge struct {
	// Room: this process is the first one of a room.
	Room bool
}

// Immeasurable is more memory than any limit. It stands for what takes too long to measure, or cannot be measured.
const Immeasurable = math.MaxInt64

const sharedMemory = "/dev/shm"

// maxFiles bounds the open files of one measurement, which then takes a second. More open files count as
// [Immeasurable]: it would take minutes.
const maxFiles = 1 << 17

// maxMounts bounds the mounts in all namespaces that the processes have made. Sandboxes of programs have dozens.
const maxMounts = 1 << 14

// OwnPages estimates how much memory the own pages of the descendants of this process use, in bytes. It takes less time
// than [Gauge.Memory], which also looks at open files.
func OwnPages(most int64) int64 { return estimate(Below(os.Getpid()), 0, most) }

// Memory estimates the use in bytes.
func (g Gauge) Memory(most int64) int64 {
	procs := Below(os.Getpid())
	return estimate(procs, g.objects(procs), most)
}

// estimate adds up the pages of processes and the size of objects, in bytes. It first makes a quick estimate, which
// counts a shared page once for each process. If that is more than most, it makes a slower one, which does not. A
// process that was just started may use the memory of its parent as a whole: it is not counted then.
func estimate(procs []Process, objects, most int64) int64 {
	by := func(procs []Process, read func(dir string) pages) int64 {
		var sum pages
		for _, p := range procs {
			one := read(p.Dir())
			sum.own, sum.shared = sum.own+one.own, sum.shared+one.shared
		}
		// Most shared pages are counted as objects, too: the larger figure counts.
		return addSaturated(sum.own, max(sum.shared, objects))
	}
	if quick := by(procs, resident); quick <= most {
		return quick
	}
	return by(slices.DeleteFunc(slices.Clone(procs), func(p Process) bool { return shares(memory, p.PID, p.Parent) }), proportional)
}

// What processes and threads can share, for kcmp.
const memory, files = 1, 2

// shares reports whether two processes or threads share something: a process and its child between vfork and exec have
// one memory. Not every process lets others find out.
func shares(what uintptr, a, b int) bool {
	order, _, err := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), what, 0, 0, 0)
	return err == 0 && order == 0
}

// pages is the size of a process's pages in memory and swap, in bytes: its own with their tables, and shared ones
// without a file on disk.
type pages struct{ own, shared int64 }

// resident counts shared pages as a whole.
func resident(dir string) pages {
	f := fieldsOf(dir, "status")
	return pages{own: f["RssAnon"] + f["VmSwap"] + f["VmPTE"], shared: f["RssShmem"]}
}

// proportional counts a page that n processes share as an n-th. Not every process lets
// others read that.
func proportional(dir string) pages {
	f := fieldsOf(dir, "smaps_rollup")
	if _, ok := f["Pss_Anon"]; !ok {
		return resident(dir)
	}
	return pages{own: f["Pss_Anon"] + f["SwapPss"] + fieldsOf(dir, "status")["VmPTE"], shared: f["Pss_Shmem"]}
}

// fieldsOf reads a file of lines like "RssAnon:  120 kB". The name of a process has no line break there.
func fieldsOf(dir, file string) map[string]int64 {
	data, _ := os.ReadFile(dir + "/" + file)
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

// objects adds up the file systems in memory and the shared memory of the processes, mapped or not.
func (g Gauge) objects(procs []Process) int64 {
	o := objects{ignored: map[uint64]bool{}, counted: map[[2]uint64]bool{}}
	visible, _ := memoryMounts("/proc/self")
	for _, m := range visible {
		o.ignored[m.device] = !g.Room || m.at != sharedMemory
	}
	if g.Room {
		o.addTmpfs(sharedMemory)
		o.sum = addSaturated(o.sum, systemV())
	}
	own, _ := os.Readlink("/proc/self/ns/mnt")
	o.namespaces = map[string]bool{own: true}
	for _, p := range procs {
		if o.addProcess(p); o.sum == Immeasurable {
			break
		}
	}
	if slices.ContainsFunc(o.kept, func(namespace string) bool { return !o.namespaces[namespace] }) {
		return Immeasurable
	}
	return o.sum
}

// addProcess adds what a process has mounted and open. A thread can have mounts and open files of its own.
func (o *objects) addProcess(p Process) {
	all := []thread{{p.PID, "/proc/" + strconv.Itoa(p.PID)}}
	if p.Threads > 1 {
		all = append(all, p.otherThreads()...)
	}
	if p.headless {
		all = all[1:]
	}
	for _, t := range all {
		if o.sum == Immeasurable {
			return
		}
		o.addMountsOnce(t.dir)
		if first := all[0]; t == first || !shares(files, first.id, t.id) {
			o.addFiles(OpenFiles(t.dir))
		}
	}
}

// objects is a sum of file systems in memory and shared memory.
type objects struct {
	ignored map[uint64]bool
	// namespaces are those whose mounts are counted.
	namespaces map[string]bool
	// kept are namespaces of mounts that an open file or a mount keeps. What one without a process has cannot be measured.
	kept []string
	// counted are devices as a whole, and files by their device and number.
	counted       map[[2]uint64]bool
	files, mounts int
	sum           int64
}

func (o *objects) add(dev, file uint64, bytes int64) {
	if id := [2]uint64{dev, file}; !o.counted[id] {
		o.counted[id] = true
		o.sum = addSaturated(o.sum, bytes)
	}
}

// addTmpfs adds the whole file system at a path, if it is one in memory.
func (o *objects) addTmpfs(path string) {
	o.addHeld(path, func(f *HeldFile) {
		if f.inMemory() {
			o.addWhole(f)
		}
	})
}

// addWhole adds the whole file system that a file is in.
func (o *objects) addWhole(f *HeldFile) {
	if !o.ignored[f.Stat.Dev] {
		o.add(f.Stat.Dev, 0, f.used())
	}
}

// addHeld holds the file at a path while it is added.
func (o *objects) addHeld(path string, add func(*HeldFile)) {
	if f, err := Hold(path); err == nil {
		add(f)
		f.Close()
	}
}

// addMountsOnce adds the file systems that a process or a thread has mounted, once for all in its namespace.
func (o *objects) addMountsOnce(proc string) {
	namespace, err := os.Readlink(proc + "/ns/mnt")
	if err != nil || o.namespaces[namespace] {
		return
	}
	o.namespaces[namespace] = true
	inMemory, all := memoryMounts(proc)
	if o.mounts += all; o.mounts > maxMounts {
		o.sum = Immeasurable
		return
	}
	for _, m := range inMemory {
		if m.namespace != "" {
			o.kept = append(o.kept, m.namespace)
			continue
		}
		if m.ramfs && !o.ignored[m.device] {
			o.sum = Immeasurable
			return
		}
		o.addTmpfs(proc + "/root" + m.at)
	}
}

// addFiles adds the open files of a process, which are named by their links in /proc.
func (o *objects) addFiles(links []string) {
	if o.files += len(links); o.files > maxFiles {
		o.sum = Immeasurable
		return
	}
	for _, link := range links {
		o.addHeld(link, func(f *HeldFile) {
			switch {
			case f.FS.Type == unix.NSFS_MAGIC:
				if name, err := os.Readlink(link); err == nil && strings.HasPrefix(name, mountNamespace) {
					o.kept = append(o.kept, name)
				}
			case f.isMemfd():
				o.add(f.Stat.Dev, f.Stat.Ino, f.Stat.Blocks*512)
			case f.inMemory():
				o.addWhole(f)
			}
		})
	}
}

// addSaturated adds without overflow.
func addSaturated(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// mountNamespace begins the names of namespaces of mounts.
const mountNamespace = "mnt:["

// memoryMount is a mount of a file system in memory, or one that keeps a namespace of mounts.
type memoryMount struct {
	at        string
	device    uint64
	ramfs     bool
	namespace string
}

// memoryMounts lists those that a process sees. all is how many mounts it sees, or more than [maxMounts].
func memoryMounts(proc string) (found []memoryMount, all int) {
	f, err := os.Open(proc + "/mountinfo")
	if err != nil {
		return nil, 0
	}
	defer f.Close() //nolint:errcheck // only read
	lines := bufio.NewReaderSize(f, mountLine)
	for goesOn := false; ; {
		line, more, err := lines.ReadLine()
		if err != nil || all > maxMounts {
			return found, all
		}
		if m, ok := parseMount(string(line)); ok && !goesOn {
			found = append(found, m)
		}
		if goesOn = more; !more {
			all++
		}
	}
}

// mountLine is how much is read of a line: more than two paths, each byte of which may be written as four. A process
// can make the options behind them much longer.
const mountLine = 64 << 10

// parseMount reads a line of mountinfo.
func parseMount(line string) (m memoryMount, ok bool) {
	// 36 35 0:53 / /dev/shm rw,nosuid shared:1 - tmpfs tmpfs rw,size=1g
	mount, kind, ok := strings.Cut(line, " - ")
	fields := strings.Fields(mount)
	kind, _, _ = strings.Cut(kind, " ")
	if ok && kind == "nsfs" && len(fields) > 4 && strings.HasPrefix(fields[3], mountNamespace) {
		m.namespace = fields[3]
		return m, true
	}
	m.ramfs = kind == "ramfs"
	if !ok || !m.ramfs && kind != "tmpfs" && kind != "devtmpfs" || len(fields) < 5 {
		return m, false
	}
	major, minor, _ := strings.Cut(fields[2], ":")
	one, err := strconv.ParseUint(major, 10, 32)
	two, e := strconv.ParseUint(minor, 10, 32)
	m.at, m.device = unescape(fields[4]), unix.Mkdev(uint32(one), uint32(two))
	return m, err == nil && e == nil
}

// unescape replaces \040 and the like, as mountinfo has them.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

// systemV returns the size of the System V shared memory in this IPC namespace, in bytes.
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
				sum = addSaturated(sum, n)
			}
		}
	}
	return sum
}
