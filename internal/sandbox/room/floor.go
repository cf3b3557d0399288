package room

// Floor restricts, with the kernel's Landlock, which files processes without a room can change
// and read. They also cannot trace, and from Linux 6.12 on not signal, processes that the shim
// has not started.
//
// Floors do not apply to rooms: Landlock forbids mounts, which sandboxes in a room need.
type Floor struct {
	// Own are directories that the processes may change.
	Own []string
	// Shown are paths that they may read although they are in Home, or may change. Missing paths
	// are skipped. Targets are ignored.
	Shown []Mount
	// Hidden are files and directories that they may neither read nor change, even below Shown.
	Hidden []string
	// Home is the worker's HOME; empty: it has none.
	Home string
	// Mounts: the processes may mount, so their file access is not restricted.
	Mounts bool
}

// The versions of Landlock that introduced parts of the floor.
const (
	// FloorVersion allows moving files between directories. Without it, Git and builds fail.
	FloorVersion = 2
	// truncateVersion also restricts truncating files without opening them.
	truncateVersion = 3
	// ScopeVersion restricts signals and abstract sockets.
	ScopeVersion = 6
)
