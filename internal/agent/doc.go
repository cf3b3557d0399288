// Package agent does the work of assignments: it runs the programs and checks,
// and asks the models, that a worker file defines.
//
// # Isolation
//
// Whatever is executed is treated as hostile. Every agent and every check runs
// below a shim: the worker's own executable, started once more, which [Shim]
// turns into a child subreaper. Nothing that an agent starts can leave the shim's
// process tree, whatever it forks, detaches or renames; when the agent's main
// process ends, when the worker wants it stopped, and when the worker dies (even
// by kill -9, which closes a pipe), the shim kills what is left of the tree and
// only then reports. An attempt that has returned has left no process behind.
//
// What a process with the worker's own user id can still do is kill the shim, or
// the worker. A worker that called [Harden] adopts what a killed shim leaves and
// kills it; against an agent that kills both, only another user (run_as) or a
// process namespace (sandbox) helps. Processes that change to another user
// cannot be killed by an unprivileged worker; agents therefore run with
// no_new_privs, except below a sandbox, which may need the privilege itself.
//
// # Adapters
//
// Command agents and checks are argvs below the shim. They differ in what they are
// told and in how their end is read, so timeouts, limits, masking and cancellation
// are the same for both. Models work through tools in the worker itself.
package agent
