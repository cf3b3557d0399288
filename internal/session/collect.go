package session

import (
	"github.com/maestro-hive/maestro/internal/spec"
)

// Collect asks for what changed in a directory.
type Collect struct {
	// Base is the manifest that the directory was filled from; empty: it was empty.
	Base spec.Digest
	// Dir is the directory.
	Dir string
	// Lower, if not empty, is the manifest of the read-only tree below Dir, which is then
	// the upper directory of an overlay mounted with userxattr, and holds changes only.
	Lower spec.Digest
	// Ignore lists gitignore patterns beyond the usual ones and the tree's own.
	Ignore []string
	// Produces lists patterns that are collected even if ignored.
	Produces []string
	// Protected lists patterns of paths whose changes are left out.
	Protected []string
	// Only, if not empty, restricts the collection to these patterns: other
	// changes are not looked at. On is then a delta to add them to.
	Only []string
	On   spec.Digest
	// Secrets lists values that no collected file may hold.
	Secrets []string
	// Unseen: the directory was filled with files that were never collected, a
	// person's, so every one that the base does not have is read, whatever the
	// store remembers of the directory.
	Unseen bool
}

// Collected is what a collection found and stored.
type Collected struct {
	// Delta is the blob of what changed.
	Delta spec.Digest
	// Output is the manifest of base and delta together.
	Output spec.Digest
	// Changed lists the delta's paths that are not deletions, sorted.
	Changed []string
	// Deleted lists the delta's deletions, sorted.
	Deleted []string
	// Protected lists the protected paths whose changes were left out, sorted.
	Protected []string
}

// Folded is the tree that deltas add up to.
type Folded struct {
	Manifest  spec.Digest
	Conflicts []Conflict
}
