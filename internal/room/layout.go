package room

import (
	"os"
	"slices"
)

// Where things are in a room, on every host.
const (
	Workspace = "/workspace"
	Home      = "/home/agent"
	Tmp       = "/tmp"
	Result    = "/home/result"
	Caches    = "/caches"
)

// agentID is the user and group that the processes of a room have there.
const agentID = 1000

// Network is what processes of a room reach.
type Network string

const (
	// NetworkHost is the network of the host.
	NetworkHost Network = "host"
	// NetworkNone is a network of the room's own, with a loopback device only.
	NetworkNone Network = "none"
)

// Mount is a path of the host that a room shows.
type Mount struct {
	// Source is the path on the host, Target that in the room. Both are absolute.
	Source string
	Target string
	// Writable lets processes of the room write there.
	Writable bool
	// Optional: a source that does not exist is left out.
	Optional bool
}

// Layout says what a room shows besides the system's programs.
type Layout struct {
	// Mounts are shown in this order: a later one may lie in an earlier one.
	Mounts []Mount
	// Overlay, if not nil, is shown at [Workspace].
	Overlay *Overlay
	// Hidden are directories of the host that no mount shows: an empty directory takes their
	// place.
	Hidden []string
	// Network is what the room's processes reach; empty: the host's network.
	Network Network
	// UID and GID are the host's ids of the room's processes.
	UID uint32
	GID uint32
}

// NewLayout returns the layout of a room whose processes have the host's ids of a user; nil: of
// this process.
func NewLayout(user *Account) *Layout {
	if user == nil {
		return &Layout{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())} //nolint:gosec // ids are not negative
	}
	return &Layout{UID: user.UID, GID: user.GID}
}

// Overlay is a tree of read-only layers with a writable directory above them.
type Overlay struct {
	// Lower are the layers, the topmost first. Upper has what is changed, Work is an empty
	// directory beside it.
	Lower []string
	Upper string
	Work  string
}

// system are the directories of the host that every room shows, read-only.
var system = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/sys"}

// Shows reports whether a room shows a path of the host without a mount of its own.
func Shows(path string) bool {
	return slices.ContainsFunc(system, func(dir string) bool { return within(path, dir) })
}

// Reserved reports whether a path, or one above it, is made by the room itself.
func Reserved(path string) bool {
	return slices.ContainsFunc([]string{Workspace, Home, Result, Caches, "/proc", "/dev", "/sys"}, func(dir string) bool {
		return within(path, dir) || within(dir, path)
	}) || path == Tmp
}

// within reports whether a clean path is a directory, or lies in it.
func within(path, dir string) bool {
	return path == dir || len(path) > len(dir) && path[:len(dir)] == dir && (path[len(dir)] == '/' || dir == "/")
}
