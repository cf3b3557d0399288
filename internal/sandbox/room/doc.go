// Package room is the shim: the process that a worker starts for each process of an agent or a
// check. The shim starts that process, ends all its descendants, and reports how it ended.
//
// With a [Layout] the shim is the first process of new namespaces and creates a room before it
// starts the process: a root directory with the system's programs (read-only), the workspace, a
// HOME and a TMPDIR, and what the layout lists. The room's processes see no other processes and
// have no capabilities. They end with the shim, which ends with its worker.
//
// rlimits.go sets the limits of the kernel. Where there are no cgroups for memory and processes, measure.go
// measures them while the process runs, and supervise.go ends what exceeds them.
//
// The package has few dependencies, because [Shim] runs in a small program of its own.
package room
