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
package procgroup
