package room

import (
	"os"
	"path/filepath"
	"slices"
)

// Paths in a room, on every host.
const (
	Workspace = "/workspace"
	Home      = "/home/agent"
	Tmp       = "/tmp"
	Result    = "/home/result"
	Caches    = "/caches"
)

// agentID is the user and group id of processes in a room.
const agentID = 1000

// Network is what processes of a room can reach.
type Network string

const (
	// NetworkHost is the network of the host.
	NetworkHost Network = "host"
	// NetworkNone is a separate network with only a loopback device.
	NetworkNone Network = "none"
)

// Mount is a path of the host that is visible in a room.
type Mount struct {
	// Source is the path on the host, and Target the path in the room. Both are absolute.
	Source string
	Target string
	// Writable: processes of the room may write there.
	Writable bool
	// Optional: a missing source is skipped.
	Optional bool
}

// Layout describes what a room shows in addition to the system's programs.
type Layout struct {
	// Mounts are mounted in this order: a later one may be below an earlier one.
	Mounts []Mount
	// Overlays are mounted before the mounts.
	Overlays []Overlay
	// Hidden are directories of the host that no mount shows: an empty directory is shown
	// instead.
	Hidden []string
	// Network is what the room's processes can reach; empty: the host's network.
	Network Network
	// UID and GID are the room's user and group ids on the host.
	UID uint32
	GID uint32
}

// NewLayout returns the layout of a room with the host's ids of a user; nil: of this process.
func NewLayout(user *Account) *Layout {
	if user == nil {
		return &Layout{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())} //nolint:gosec // ids are not negative
	}
	return &Layout{UID: user.UID, GID: user.GID}
}

// Overlay is a stack of read-only layers with a writable directory on top.
type Overlay struct {
	// Target is its path in the room.
	Target string
	// Lower are the layers, the topmost first. Upper has the changes, and Work is an empty
	// directory on the same file system.
	Lower []string
	Upper string
	Work  string
}

// system are the directories of the host that every room shows, read-only. A socket in one could be
// used nevertheless, so that of the Nix daemon is not among them.
var system = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store",
	"/nix/var/nix/profiles", "/sys",
}

// Shows reports whether a room shows a path of the host without a mount of its own.
func Shows(path string) bool {
	return slices.ContainsFunc(system, func(dir string) bool { return within(path, dir) })
}

// Reserved reports whether the room itself creates a path or a directory above it.
func Reserved(path string) bool {
	return slices.ContainsFunc([]string{Workspace, Home, Result, Caches, "/proc", "/dev", "/sys"}, func(dir string) bool {
		return within(path, dir) || within(dir, path)
	}) || path == Tmp
}

// RealPath returns a path without links, or the path itself if it cannot be resolved.
func RealPath(path string) string {
	if full, err := filepath.EvalSymlinks(path); err == nil {
		return full
	}
	return filepath.Clean(path)
}

// within reports whether a clean path equals a directory or is below it.
func within(path, dir string) bool {
	return path == dir || len(path) > len(dir) && path[:len(dir)] == dir && (path[len(dir)] == '/' || dir == "/")
}
