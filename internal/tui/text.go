package tui

import (
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/safetext"
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
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case lipgloss.Width(line)+1+lipgloss.Width(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	lines = append(lines, line)
	return strings.Split(ansi.Hardwrap(strings.Join(lines, "\n"), max(width, 1), false), "\n")
}

// safe is text of any origin as one line that is only seen.
func safe(text string) string { return safetext.Line(text) }

// formatDuration writes a duration in its two largest units.
func formatDuration(d time.Duration) string {
	d = max(d, 0).Truncate(time.Second)
	seconds := int(d / time.Second)
	switch {
	case seconds < 60:
		return fmt.Sprintf("%ds", seconds)
	case seconds < 3600:
		return fmt.Sprintf("%dm %02ds", seconds/60, seconds%60)
	case seconds < 24*3600:
		return fmt.Sprintf("%dh %02dm", seconds/3600, seconds/60%60)
	}
	return fmt.Sprintf("%dd %02dh", seconds/86400, seconds/3600%24)
}

// short writes a large number in four figures at most.
func short(n int64) string {
	switch {
	case n < 1_000:
		return fmt.Sprint(n)
	case n < 100_000:
		return fmt.Sprintf("%d.%dk", n/1_000, n/100%10)
	case n < 1_000_000:
		return fmt.Sprintf("%dk", n/1_000)
	case n < 1_000_000_000:
		return fmt.Sprintf("%d.%02dM", n/1_000_000, n/10_000%100)
	}
	return fmt.Sprintf("%d.%02dG", n/1_000_000_000, n/10_000_000%100)
}

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
	return short(n)
}
