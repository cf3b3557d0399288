package session

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Collect are the parameters of a collection: reading what changed in a directory.
type Collect struct {
	// Base is the manifest that the directory was filled from; empty: it was empty.
	Base spec.Digest
	// Dir is the directory.
	Dir string
	// Lower, if not empty, is the manifest of the read-only tree below Dir, which is then
	// the upper directory of an overlay mounted with userxattr, and holds changes only.
	Lower spec.Digest
	// Ignore lists gitignore patterns in addition to the default ones and the tree's own.
	Ignore []string
	// Produces lists patterns that are collected even if ignored.
	Produces []string
	// Protected lists patterns of paths whose changes are left out.
	Protected []string
	// Only, if not empty, restricts the collection to these patterns: other changes are not read.
	// On is then the manifest to which the changes are added; empty: Base.
	Only []string
	On   spec.Digest
	// Secrets are those that no collected file may contain; nil: there are none.
	Secrets *secrets.Set
}

// Collected is the result of a collection.
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
	// LeftOut lists what no tree can hold, with the reasons, and Ignored what ignore rules exclude; both are sorted.
	LeftOut, Ignored []string
}

// RoomTree is the path at which a room shows the tree of an attempt.
const RoomTree = "/workspace"

// Folded is the tree that results from deltas.
type Folded struct {
	Manifest  spec.Digest
	Conflicts []Conflict
}

// The limits of what is said about files that were left out: sentences, the bytes of one, the paths in it, the bytes
// of a path, and the lines of a list.
const (
	maxLeftOut     = 10
	maxLeftOutNote = 400
	leftOutPaths   = 5
	leftOutPath    = 160
	leftOutLines   = 1000
)

// LeftOutNote says in a sentence what was left out, and why: the first paths, and how many more there are.
func LeftOutNote(why string, paths []string) string {
	note, shown := why+": ", 0
	for _, p := range paths[:min(len(paths), leftOutPaths)] {
		if p = textfmt.Shorten(p, leftOutPath); shown > 0 {
			p = ", " + p
		}
		if len(note)+len(p) > maxLeftOutNote-len(" and 1000000 more") {
			break
		}
		note, shown = note+p, shown+1
	}
	if more := len(paths) - shown; more > 0 {
		note += fmt.Sprintf(" and %d more", more)
	}
	return note
}

// LeftOutList is what was left out, and why, for a transcript: a line for each of the first paths.
func LeftOutList(why string, paths []string) string {
	listed := paths[:min(len(paths), leftOutLines)]
	text := why + ":\n" + strings.Join(listed, "\n")
	if more := len(paths) - len(listed); more > 0 {
		text += fmt.Sprintf("\nand %d more", more)
	}
	return text
}

// CheckLeftOut rejects sentences that exceed the limits.
func CheckLeftOut(notes []string) error {
	if len(notes) > maxLeftOut || slices.ContainsFunc(notes, func(n string) bool {
		return len(n) > maxLeftOutNote ||
			!utf8.ValidString(n)
	}) {
		return fmt.Errorf("not at most %d sentences of at most %d bytes each", maxLeftOut, maxLeftOutNote)
	}
	return nil
}
