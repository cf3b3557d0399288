// Package procgroup runs a process and ends everything that it started. It captures,
// masks and bounds the output, and knows nothing of agents.
//
// Whatever is executed is treated as hostile. Every process runs below a shim: the
// worker's own executable, started once more, which [Shim] turns into a child subreaper.
// No descendant can leave the shim's process tree, whatever it forks, detaches or
// renames. The shim kills what is left of the tree when the main process ends, when the
// worker stops it, and when the worker dies (even by kill -9, which closes a pipe). Only
// then does it report. So [Launcher.Run] leaves no process behind.
//
// A process with the worker's user id can still kill the shim, or the worker. A worker
// that called [Harden] adopts what a killed shim leaves, and kills it. Against a process
// that kills both, only another user (run_as) or a room helps. An unprivileged worker cannot
// kill processes that change to another user; therefore processes run with no_new_privs.
package procgroup
