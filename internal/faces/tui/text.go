package tui

import (
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// clip cuts a line, which may have colours, to a width in cells.
func clip(line string, width int) string {
	if width <= 0 {
		return ""
	}
	return ansi.Truncate(line, width, "…")
}

// fit makes a line exactly width cells wide.
func fit(line string, width int) string {
	line = clip(line, width)
	return line + strings.Repeat(" ", max(width-lipgloss.Width(line), 0))
}

// alignRight makes a text exactly width cells wide, at the right.
func alignRight(text string, width int) string {
	text = clip(text, width)
	return strings.Repeat(" ", max(width-lipgloss.Width(text), 0)) + text
}

// firstClause is what fits of a sentence: all of it, or its first clause.
func firstClause(sentence string, width int) string {
	if end := strings.IndexAny(sentence, ",;"); end > 0 && lipgloss.Width(sentence) > width {
		sentence = sentence[:end]
	}
	return clip(sentence, width)
}

// justify puts two texts at both ends of a line; the left one is cut if needed.
func justify(left, right string, width int) string {
	if right == "" {
		return clip(left, width)
	}
	room := width - lipgloss.Width(right) - 2
	if room < 8 {
		return clip(left, width)
	}
	return fit(left, room) + "  " + right
}

// fold breaks a text without colours at a width, between its words only: what a
// person types stays whole unless a word alone is too long.
func fold(text string, width int) []string {
	return strings.Split(ansi.Hardwrap(strings.Join(terminal.Wrap(text, width), "\n"), max(width, 1), false), "\n")
}

// safe is text of any origin as one line that is only seen.
func safe(text string) string { return safetext.Line(text) }

// dollars writes an amount of money; nothing for nothing.
func dollars(u cost.USD) string {
	if u == 0 {
		return ""
	}
	return "$" + u.Rounded().String()
}

// tokens writes a number of tokens; nothing for none.
func tokens(n int64) string {
	if n == 0 {
		return ""
	}
	return terminal.Short(n)
}
