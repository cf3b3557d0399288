package transcript

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// briefLines is how many lines that belong to an item are shown in brief.
	briefLines = 12
	// briefLine is how many characters of such a line are shown in brief.
	briefLine = 240
)

// Brief shortens a transcript line by line, so that it can be followed as it grows:
// of every item it shows the first lines, and says how many there are more. What an agent program
// sends by itself is one line. What the agent says stays whole.
type Brief struct {
	lines, hidden int
	fold          Fold
}

// Line takes a line without its end, and returns the lines to show for it.
func (b *Brief) Line(line string) []string {
	if whatOf(line) != "" && b.fold.lines == 0 {
		shown := b.End()
		b.fold.Take(line)
		return shown
	}
	if b.fold.Take(line) {
		return nil
	}
	if !strings.HasPrefix(line, bar) {
		shown := append(b.End(), line)
		b.lines = 0
		return shown
	}
	b.lines++
	if b.lines > briefLines {
		b.hidden++
		return nil
	}
	if utf8.RuneCountInString(line) > briefLine {
		line = string([]rune(line)[:briefLine]) + "…"
	}
	return []string{line}
}

// End returns what is left to show at the end of the transcript.
func (b *Brief) End() []string {
	if fold := b.fold; fold.lines > 0 {
		b.fold = Fold{}
		if fold.lines == 1 {
			return []string{fold.first}
		}
		return []string{asked + fold.String() + "; --full shows them"}
	}
	if b.hidden == 0 {
		return nil
	}
	more := "lines"
	if b.hidden == 1 {
		more = "line"
	}
	left := fmt.Sprintf("%s … %d more %s: --full shows them", bar, b.hidden, more)
	b.hidden = 0
	return []string{left}
}

// InBrief shortens a whole transcript.
func InBrief(text string) string {
	var b Brief
	var shown []string
	for line := range strings.Lines(text) {
		shown = append(shown, b.Line(strings.TrimSuffix(line, "\n"))...)
	}
	shown = append(shown, b.End()...)
	if len(shown) == 0 {
		return ""
	}
	return strings.Join(shown, "\n") + "\n"
}

// Belongs reports whether a line belongs to the item above it. Spaces before and after it
// do not matter.
func Belongs(line string) bool {
	return strings.HasPrefix(strings.TrimLeft(line, " "), strings.TrimSpace(bar))
}
