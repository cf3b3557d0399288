// Package room is the shim: the process that a worker starts for each process of an agent or a
// check. The shim starts that process, ends all its descendants, and reports how it ended.
//
// With a [Layout] the shim is the first process of new namespaces and creates a room before it
// starts the process: a root directory with the system's programs (read-only), the workspace, a
// HOME and a TMPDIR, and what the layout lists. The room's processes see no other processes and
// have no capabilities. They end with the shim, which ends with its worker.
//
// The package has few dependencies, because [Shim] runs in a small program of its own.
//
// Start reading in supervise.go, at supervise:
//
//	supervise.go         when a process is ended: its worker stops it or has died, its lease has ended, or it exceeds a
//	                     limit; how its program is found and started
//	orders.go            what a worker orders and a shim reports, how large orders may be, and on how many ports a room may
//	                     listen
//	measure.go           how often threads are counted and, without cgroups, memory is measured, and how long that may take
//	rlimits.go           how many files a process may have open, the kernel's limit of threads, the priority (nice), and that
//	                     agents are killed first when the host has no memory
//	layout.go            the paths in a room, and which directories of the host every room shows
//	enter_linux.go       the order in which a room is made, its mounts, and what hides directories; devices_linux.go: its
//	                     devices, /proc, /dev/shm and names of users; dir_linux.go: that no link leads a mount out of it;
//	                     listen_linux.go: its ports
//	namespaces_linux.go  which namespaces and ids a room has; privileges_linux.go: that it has no capabilities, and does not
//	                     reach abstract sockets of the host
//	filter_linux.go      which system calls are refused in a room; object_limits_linux.go: how many namespaces, inotify watches and
//	                     the like it may have
//	floor.go             what a process without a room may read and change, and which version of Landlock that needs;
//	                     floor_linux.go: the rules
//	account.go           as whom agents run (run_as), and how files become theirs
//	program.go           when the small program of the shim is used, and of which build; remedy.go: which errors say that a
//	                     host permits no rooms, and what to change
//	host_linux.go        that signals and debuggers do not reach the shim; host_darwin.go: what macOS does not have of a room
package room
