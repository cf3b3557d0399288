package room

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// architectures are those whose system calls are filtered.
var architectures = [...]uint32{unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_ARM}

// x32 marks the calls of the x86-64 programs with short pointers.
const x32 = 0x40000000

// refusal is a system call that is answered with an error.
type refusal struct {
	// numbers are those of the call, in the order of architectures; zero: there is no such call.
	numbers [len(architectures)]uint32
	// when are conditions on the arguments, of which one has to hold; none: the call is always refused.
	when []condition
	with unix.Errno
}

// condition holds if each comparison does.
type condition []comparison

// comparison is of the lower half of an argument with a value.
type comparison struct {
	argument int
	value    uint32
	differs  bool
}

// first: an argument is the room's first process.
func first(argument int) condition { return condition{{argument: argument, value: 1}} }

var (
	// keys are add_key, request_key and keyctl: no namespace separates the keys of the worker's session and user.
	keys = []refusal{
		{numbers: [...]uint32{248, 286, 217, 309}, with: unix.ENOSYS},
		{numbers: [...]uint32{249, 287, 218, 310}, with: unix.ENOSYS},
		{numbers: [...]uint32{250, 288, 219, 311}, with: unix.ENOSYS},
	}
	// foreignLimits is prlimit64 for another process. Whatever has the same user could take the files of its shim,
	// which then measures nothing, or have the kernel kill a worker for the processor time that it has used.
	foreignLimits = []refusal{{
		numbers: [...]uint32{302, 340, 261, 369}, with: unix.EPERM,
		// The halves of the new limits' address: either may be zero.
		when: []condition{
			{{argument: 0, differs: true}, {argument: 2, differs: true}},
			{{argument: 0, differs: true}, {argument: upperHalf + 2, differs: true}},
		},
	}}
	// firstProcess are sched_setparam, sched_setscheduler, sched_setaffinity, sched_setattr and setpriority for the
	// shim: one that is never run measures nothing. The priority of all processes of a user includes it.
	firstProcess = []refusal{
		{numbers: [...]uint32{142, 154, 118, 154}, when: []condition{first(0)}, with: unix.EPERM},
		{numbers: [...]uint32{144, 156, 119, 156}, when: []condition{first(0)}, with: unix.EPERM},
		{numbers: [...]uint32{203, 241, 122, 241}, when: []condition{first(0)}, with: unix.EPERM},
		{numbers: [...]uint32{314, 351, 274, 380}, when: []condition{first(0)}, with: unix.EPERM},
		{numbers: [...]uint32{141, 97, 140, 97}, when: []condition{first(1), {{argument: 0, value: unix.PRIO_USER}}}, with: unix.EPERM},
	}
	// detachedMounts are open_tree and open_tree_attr: their copies of mounts belong to no process and no namespace
	// that is counted. mount(8) does without.
	detachedMounts = []refusal{
		{numbers: [...]uint32{428, 428, 428, 428}, with: unix.ENOSYS},
		{numbers: [...]uint32{467, 467, 467, 467}, with: unix.ENOSYS},
	}
	// hostSockets are socket for the family of sockets between a virtual machine and its host, which has no
	// namespaces, and what makes sockets without that call: io_uring_setup, and socketcall for a socket.
	hostSockets = []refusal{
		{numbers: [...]uint32{41, 359, 198, 281}, when: []condition{{{argument: 0, value: unix.AF_VSOCK}}}, with: unix.EAFNOSUPPORT},
		{numbers: [...]uint32{425, 425, 425, 425}, with: unix.ENOSYS},
		{numbers: [len(architectures)]uint32{1: 102}, when: []condition{first(0)}, with: unix.ENOSYS},
	}
)

// upperHalf, added to the number of an argument, means its upper half.
const upperHalf = 6

// refuse keeps the calling thread, and what it starts, from system calls. A kernel may lack filters.
func refuse(calls []refusal) error {
	filter := filterOf(calls)
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]} //nolint:gosec // it has a few hundred instructions
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER,
		uintptr(unsafe.Pointer(&program)), 0, 0) //nolint:gosec // the kernel reads the structure
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("filter system calls: %w", err)
	}
	return nil
}

// Where the kernel's seccomp_data has the number of the call, the architecture and the arguments.
const numberAt, archAt, argumentsAt = 0, 4, 16

// filterOf permits all calls but these.
func filterOf(calls []refusal) (filter []unix.SockFilter) {
	for i, arch := range architectures {
		block := []unix.SockFilter{load(numberAt)}
		for _, c := range calls {
			if c.numbers[i] == 0 {
				continue
			}
			body := c.body()
			if arch == unix.AUDIT_ARCH_X86_64 {
				block = append(block, equal(c.numbers[i]|x32, 1, 0))
			}
			block = append(append(block, equal(c.numbers[i], 0, len(body))), body...)
		}
		block = append(block, answer(unix.SECCOMP_RET_ALLOW))
		past := unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(len(block))} //nolint:gosec // a short block
		filter = append(filter, load(archAt), equal(arch, 1, 0), past)
		filter = append(filter, block...)
	}
	return append(filter, answer(unix.SECCOMP_RET_ALLOW))
}

// body answers the call, whose number has been found.
func (c refusal) body() (body []unix.SockFilter) {
	refused := answer(unix.SECCOMP_RET_ERRNO | uint32(c.with)) //nolint:gosec // errors are small
	if len(c.when) == 0 {
		return []unix.SockFilter{refused}
	}
	for _, all := range c.when {
		for i, one := range all {
			past := 2*(len(all)-i-1) + 1 // the other comparisons and the answer
			then, otherwise := 0, past
			if one.differs {
				then, otherwise = past, 0
			}
			body = append(body, load(one.at()), equal(one.value, then, otherwise))
		}
		body = append(body, refused)
	}
	return append(body, answer(unix.SECCOMP_RET_ALLOW))
}

// at is where the kernel's data has what is compared. The architectures are all little-endian.
func (c comparison) at() uint32 {
	if c.argument >= upperHalf {
		return uint32(argumentsAt + 8*(c.argument-upperHalf) + 4) //nolint:gosec // arguments are few
	}
	return uint32(argumentsAt + 8*c.argument) //nolint:gosec // arguments are few
}

func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

func equal(value uint32, then, otherwise int) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: uint8(then), Jf: uint8( //nolint:gosec // short jumps
		otherwise), K: value}
}

func answer(value uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value}
}
