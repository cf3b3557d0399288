// Package procgroup runs a process and ends everything that it started. It captures,
// masks and bounds the output. It has no code that is specific to agents.
//
// Whatever is executed is treated as hostile. Every process runs below a shim: the
// worker's own executable, started once more, which [room.Shim] turns into a child subreaper.
// No descendant can leave the shim's process tree, whatever it forks, detaches or
// renames. The shim kills the remaining processes when the main process ends, when the
// worker stops it, and when the worker dies (even by kill -9, which closes a pipe). It
// reports after that. So [Launcher.Run] leaves no process behind.
//
// A process with the worker's user id can still kill the shim, or the worker. A worker
// that called [Harden] adopts the processes of a killed shim, and kills them. Only another
// user (run_as) or a room protects from a process that kills both. An unprivileged worker cannot
// kill processes that change to another user; therefore processes run with no_new_privs.
//
// Start reading in process.go, at Run:
//
//	process.go     when a process is stopped (timeout, idle timeout, too much output), how long it has after SIGTERM, for how
//	               long its output is read after its end, how long its shim may take to report and a line of progress may
//	               be, what its end means, and how the lease of its work is extended
//	capture.go     how much a process may print, how much of its log and of its last output is kept, and that secrets are
//	               masked; lines.go: the longest event of a stream
//	cgroups.go     whether cgroups can be used, what they limit (memory, swap, threads, share of processors), and whether the
//	               kernel has killed a process for its memory
//	threads.go     how many threads an attempt may have, shared by what the host permits, and when these are few
//	bounds.go      what is told of the limits and of what enforces them; how much memory the host, or its container, has
//	sweep.go       which processes of an earlier attempt are killed, and which stopped shims
//	served.go      how a server of the worker is reached from a room; try.go: whether this host permits rooms
//	host_linux.go  that agents cannot read the worker's memory and environment (Harden), and the size of removed files that
//	               are still open; host_darwin.go: what macOS does not have of that
package procgroup
