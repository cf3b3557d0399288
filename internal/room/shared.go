package room

import (
	"errors"
	"fmt"
	"io/fs"
	"unsafe"

	"golang.org/x/sys/unix"
)

// objects bounds what the kernel counts for the worker's user together with all rooms: one
// room must not use up what other rooms and the host need.
var objects = []struct{ name, most string }{
	{"max_inotify_instances", "32"},
	{"max_user_namespaces", "1000"},
	{"max_mnt_namespaces", "1000"},
	{"max_pid_namespaces", "1000"},
	{"max_net_namespaces", "1000"},
	{"max_ipc_namespaces", "1000"},
	{"max_uts_namespaces", "1000"},
	{"max_cgroup_namespaces", "1000"},
	{"max_time_namespaces", "1000"},
}

// limitObjects sets the bounds of objects in this user namespace. A kernel may lack some.
func limitObjects(root dir) error {
	fd, err := root.open("proc/sys/user", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("limit the room: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // only a place
	for _, o := range objects {
		if err := dir(fd).write(o.name, o.most, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("limit the room: %w", err)
		}
	}
	return nil
}

// keyCalls are the numbers of the system calls add_key, request_key and keyctl, by architecture.
var keyCalls = []struct {
	arch    uint32
	numbers []uint32
}{
	{unix.AUDIT_ARCH_X86_64, []uint32{248, 249, 250, x32 | 248, x32 | 249, x32 | 250}},
	{unix.AUDIT_ARCH_I386, []uint32{286, 287, 288}},
	{unix.AUDIT_ARCH_AARCH64, []uint32{217, 218, 219}},
	{unix.AUDIT_ARCH_ARM, []uint32{309, 310, 311}},
}

// x32 marks the calls of the x86-64 programs with short pointers.
const x32 = 0x40000000

// denyKeys keeps the calling thread, and what it starts, from the kernel's keys: no namespace
// separates those of the worker's session and user. A kernel may lack filters.
func denyKeys() error {
	filter := keyFilter()
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]} //nolint:gosec // it has a few dozen instructions
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0) //nolint:gosec // the kernel reads the structure
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("deny the kernel's keys: %w", err)
	}
	return nil
}

// keyFilter answers keyCalls as a kernel that has none of them.
func keyFilter() (filter []unix.SockFilter) {
	const numberAt, archAt = 0, 4 // in the kernel's seccomp_data
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	equal := func(value uint32, then, otherwise int) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: uint8(then), Jf: uint8(otherwise), K: value} //nolint:gosec // short jumps
	}
	answer := func(value uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value}
	}
	filter = append(filter, load(archAt))
	for _, c := range keyCalls {
		n := len(c.numbers)
		filter = append(filter, equal(c.arch, 0, n+3), load(numberAt))
		for i, number := range c.numbers {
			filter = append(filter, equal(number, n-i, 0))
		}
		filter = append(filter, answer(unix.SECCOMP_RET_ALLOW), answer(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)))
	}
	return append(filter, answer(unix.SECCOMP_RET_ALLOW))
}
