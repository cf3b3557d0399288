package transcript

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// folded are the beginnings of items that an agent program sends by itself, and not for a persona, and what each is. A
// program has its context in tags.
var folded = []struct{ prefix, what string }{
	{asked + "system: ", "system prompt"},
	{asked + "tools: ", "tools"},
	{asked + "user: <", "context"},
	{asked + "user: (additional_tools)", "tools"},
}

// whatOf says what an item that begins with a line is, if an agent program sends it by itself. Such items are long, and
// each call that has others repeats them: a transcript that is shown in brief has one line for those that follow each other.
func whatOf(line string) string {
	for _, f := range folded {
		if strings.HasPrefix(line, f.prefix) {
			return f.what
		}
	}
	return ""
}

// Fold is a run of items that an agent program sends by itself.
type Fold struct {
	what              []string
	lines, characters int
	first             string
}

// Take adds a line, and reports whether it is part of the run. The first one has to begin such an item.
func (f *Fold) Take(line string) bool {
	what, text := whatOf(line), withoutBar(line)
	switch {
	case what != "":
		if !slices.Contains(f.what, what) {
			f.what = append(f.what, what)
		}
		if f.lines == 0 {
			f.first = line
		}
		_, text, _ = strings.Cut(line, ": ")
	case f.lines == 0 || !strings.HasPrefix(line, bar):
		return false
	}
	f.lines++
	if what == "" || !strings.HasSuffix(text, "…") { // such a heading is repeated whole below it
		f.characters += utf8.RuneCountInString(text)
	}
	return true
}

// String says what the items are, and how long they are together.
func (f *Fold) String() string {
	return strings.Join(f.what, ", ") + ": " + terminal.Number(int64(f.characters)) + " characters"
}
