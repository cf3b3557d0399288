// Package room has the shim: the process that a worker starts for each process of an agent or
// a check. The shim starts that process, ends everything that descends from it, and reports how
// it ended.
//
// With a [Layout] the shim is the first process of new namespaces and makes a room before it
// starts anything: a root directory that shows the system's programs read-only, the workspace,
// a HOME and a TMPDIR, and what the layout lists. The room's processes see no other process,
// have no capability, and end with the shim, which ends with its worker.
//
// The package imports little: [Shim] runs in a small program of its own.
package room
