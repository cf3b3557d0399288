package proctest

import (
	"fmt"
	"os"
	"os/exec"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Feature is a feature of the kernel that a host may lack.
type Feature string

const (
	// UserNamespaces are forbidden as the system call filter of a container does it.
	UserNamespaces Feature = "user-namespaces"
	// Landlock is absent as in a kernel without it.
	Landlock Feature = "landlock"
)

// withoutArgument makes a test binary start a program without a feature.
const withoutArgument = "__test-without"

// Without returns the command of a program that lacks a feature of the kernel, as do its
// children. The test's TestMain must call [RunWithout] first.
func Without(f Feature, program string, args ...string) *exec.Cmd {
	// Another user may start it by this path, too.
	return exec.Command("/proc/self/exe", append([]string{withoutArgument, string(f), program}, args...)...)
}

// RunWithout executes the program of a command of [Without]; in any other process it
// does nothing.
func RunWithout() {
	if len(os.Args) < 4 || os.Args[1] != withoutArgument {
		return
	}
	err := deny(Feature(os.Args[2]))
	if err == nil {
		err = unix.Exec(os.Args[3], os.Args[3:], os.Environ()) //nolint:forbidigo // the same environment
	}
	fmt.Fprintln(os.Stderr, err) //nolint:forbidigo // it is a process of its own
	os.Exit(1)
}

// deny filters the system calls of a feature.
func deny(f Feature) error {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	jump := func(how uint16, value uint32, otherwise uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | how, Jf: otherwise, K: value}
	}
	answer := func(value uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value} }
	refuse := func(errno unix.Errno) unix.SockFilter {
		return answer(unix.SECCOMP_RET_ERRNO | uint32( //nolint:gosec // small numbers
			errno))
	}
	// in the kernel's seccomp_data
	const numberAt, flagsAt = 0, 16
	filter := []unix.SockFilter{load(numberAt)}
	switch f {
	case Landlock:
		for _, call := range []uint32{unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_RESTRICT_SELF} {
			filter = append(filter, jump(unix.BPF_JEQ, call, 1), refuse(unix.ENOSYS))
		}
	case UserNamespaces:
		filter = append(filter, jump(unix.BPF_JEQ, unix.SYS_CLONE3, 1), refuse(unix.ENOSYS)) // its flags are in memory
		for _, call := range []uint32{unix.SYS_CLONE, unix.SYS_UNSHARE} {
			filter = append(filter, jump(unix.BPF_JEQ, call, 4), load(flagsAt), jump(unix.BPF_JSET, unix.CLONE_NEWUSER, 1),
				refuse(unix.EPERM), answer(unix.SECCOMP_RET_ALLOW))
		}
	default:
		return fmt.Errorf("the feature %q is not known", f)
	}
	filter = append(filter, answer(unix.SECCOMP_RET_ALLOW))
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]} //nolint:gosec // it is short
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program))) //nolint:gosec // the kernel reads it
	if errno != 0 {
		return fmt.Errorf("filter the system calls of %s: %w", f, errno)
	}
	return nil
}
