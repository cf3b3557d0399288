package session

import (
	"regexp"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Patterns of what differs between two occurrences of one failure, in the order in which they are
// removed from an error's text.
var (
	volatileWords = regexp.MustCompile(`\b[a-z_-]*[0-9][a-z0-9_-]*\b`)
	volatilePaths = regexp.MustCompile(`(?:[A-Za-z]:)?(?:/[^\s/:"'()]+)+/([^\s/:"'()]+)`)
	blanks        = regexp.MustCompile(`[\s#]+`)
)

// Fingerprint identifies a failure across sessions: by team, phase, persona, category, and the
// error's text without the parts that differ between occurrences. Its 16 hex digits name the
// failure's ticket.
func Fingerprint(name string, id spec.AssignmentID, c failures.Category, message string) string {
	return string(spec.DigestOfJSON([]string{name, id.Phase, id.Persona, string(c), normalised(message)}))[:16]
}

// normalised removes numbers, hashes, identifiers with digits and the directories of absolute paths
// from a text.
func normalised(message string) string {
	s := volatilePaths.ReplaceAllString(strings.ToLower(message), "$1")
	s = volatileWords.ReplaceAllString(s, "#")
	return strings.TrimSpace(blanks.ReplaceAllString(s, " "))
}
