package chat

import (
	"fmt"
	"strings"

	"github.com/maestro-hive/maestro/internal/team"
)

// maxNote bounds one text in a transcript, in bytes.
const maxNote = 2000

// transcript is the log of an attempt for people to read: its turns, and what
// they brought. It keeps the beginning and the end.
type transcript struct {
	limit int
	lines []string
}

func (t *transcript) add(format string, args ...any) {
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

// note adds a text below the line before it.
func (t *transcript) note(label, text string) {
	text = strings.TrimSpace(text)
	if text == "" {
		return
	}
	text = strings.ReplaceAll(team.Shorten(text, maxNote), "\n", "\n    ")
	t.add("  %s %s", label, text)
}

// text is the transcript, cut in its middle to the limit.
func (t *transcript) text() string {
	whole := strings.Join(t.lines, "\n") + "\n"
	if t.limit <= 0 || len(whole) <= t.limit {
		return whole
	}
	half := t.limit/2 - 40
	return team.Shorten(whole, half) + "\n(the middle was left out)\n" + team.Tail(whole, half)
}

// oneLine puts a text on one line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
