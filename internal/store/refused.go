package store

import (
	"strconv"

	"github.com/maestro-hive/maestro/internal/team"
)

// RefusedError says that something in a directory cannot become part of a tree.
type RefusedError struct {
	// Path is what is refused, relative to the directory.
	Path string
	// Reason says why, and what would be right.
	Reason string
}

// Error names the path and the reason.
func (e *RefusedError) Error() string {
	return strconv.Quote(team.Shorten(e.Path, 120)) + " " + e.Reason
}
