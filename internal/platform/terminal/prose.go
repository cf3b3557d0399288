package terminal

import (
	"maps"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/maestro-hive/maestro/internal/core/safetext"
)

// Dash is a dash where there is no text.
func Dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// PageWidth is the width, in cells, that text for people is wrapped to. Only
// commands, which are to be copied, and words that are longer go beyond.
const PageWidth = 80

// Wrap breaks text into lines of at most width cells, at spaces. A word that is
// longer has a line for itself.
func Wrap(text string, width int) []string {
	lines := []string{""}
	for _, word := range strings.Fields(safetext.Line(text)) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case ansi.StringWidth(*last)+1+ansi.StringWidth(word) <= width:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

// Enumeration joins words, at least one, as a sentence does.
func Enumeration(words []string, last string) string {
	n := len(words) - 1
	if n == 0 {
		return words[0]
	}
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}

// Names lists the names that a map is by, sorted; "none" for an empty one.
func Names[V any](m map[string]V) string {
	if len(m) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}
