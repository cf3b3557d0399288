package transcript

import (
	"strings"
	"unicode/utf8"

	"github.com/maestro-hive/maestro/internal/core/safetext"
)

// Kind is what an item of a transcript is.
type Kind string

// The kinds of items.
const (
	Said    Kind = "said"
	Turn    Kind = "turn"
	Asked   Kind = "asked"
	Thought Kind = "thought"
	Call    Kind = "call"
	Result  Kind = "result"
	Warning Kind = "warning"
	Note    Kind = "note"
)

// marks begin the first line of an item.
var marks = []struct {
	prefix string
	kind   Kind
}{{turn, Turn}, {asked, Asked}, {thought, Thought}, {call, Call}, {result, Result}, {warning, Warning}, {note, Note}}

// Item is a part of a transcript.
type Item struct {
	Kind Kind
	// Line is the number of its first line, from 1.
	Line int
	// Head is the first line without its mark; of what is said, all lines.
	Head string
	Body []BodyLine
	// Failed: the result is that of a call that failed.
	Failed bool
	// Fold is true for items that an agent program sends by itself: Head says what they are, and Body has all their lines.
	Fold bool
}

// BodyLine is a line that belongs to an item. Mark is + or - for the lines of an edit.
type BodyLine struct{ Mark, Text string }

// maxLine is how many bytes of a line are shown.
const maxLine = 4000

// itemsOf takes lines apart, of which the first one has a number.
func itemsOf(lines []string, first int) (items []Item) {
	var fold Fold
	for i, line := range lines {
		line = clean(line)
		if n := len(items); n > 0 && items[n-1].Fold {
			if fold.Take(line) {
				items[n-1].Head = fold.String()
				items[n-1].Body = append(items[n-1].Body, BodyLine{Text: withoutBar(line)})
				continue
			}
			items[n-1].unfold()
		}
		if whatOf(line) != "" {
			fold = Fold{}
			fold.Take(line)
			items = append(items, Item{Kind: Asked, Line: first + i, Head: fold.String(), Body: []BodyLine{{Text: line}}, Fold: true})
			continue
		}
		if n := len(items); strings.HasPrefix(line, bar) && n > 0 && items[n-1].Kind != Said {
			items[n-1].add(withoutBar(line))
			continue
		}
		kind, text := kindOf(line)
		if n := len(items); kind == Said && n > 0 && items[n-1].Kind == Said {
			items[n-1].Head += "\n" + text
			continue
		}
		items = append(items, Item{Kind: kind, Line: first + i, Head: text, Failed: kind == Result &&
			strings.HasPrefix(text, "failed")})
	}
	if n := len(items); n > 0 {
		items[n-1].unfold()
	}
	for i := range items {
		items[i].Head = strings.Trim(items[i].Head, "\n")
	}
	return items
}

// unfold shows a single line as it is.
func (it *Item) unfold() {
	if it.Fold && len(it.Body) == 1 {
		_, text := kindOf(it.Body[0].Text)
		*it = Item{Kind: Asked, Line: it.Line, Head: text}
	}
}

func (it *Item) add(text string) {
	l := BodyLine{Text: text}
	if it.Kind == Call && (strings.HasPrefix(text, "+ ") || strings.HasPrefix(text, "- ")) {
		l.Mark = text[:1]
	}
	it.Failed = it.Failed || it.Kind == Result && len(it.Body) == 0 && strings.HasPrefix(text, "failed: ")
	it.Body = append(it.Body, l)
}

func kindOf(line string) (Kind, string) {
	for _, m := range marks {
		if text, ok := strings.CutPrefix(line, m.prefix); ok {
			return m.kind, text
		}
	}
	return Said, line
}

// clean is a line as it may be shown, cut where it is very long.
func clean(line string) string {
	if len(line) > maxLine {
		end := maxLine
		for end > 0 && !utf8.RuneStart(line[end]) {
			end--
		}
		line = line[:end] + " … cut here"
	}
	return strings.ReplaceAll(safetext.Block(line), "\n", " ")
}

// Window is a part of a transcript's lines.
type Window struct {
	Items []Item
	// First and Last are the numbers of its lines, from 1, and Total is how many there are.
	First, Last, Total int
}

// WindowOf cuts about size lines out of a text: the last ones up to a line, or with last 0 the
// last ones of all. It begins with an item.
func WindowOf(text string, last, size int) Window {
	text = strings.TrimSuffix(text, "\n")
	if text == "" {
		return Window{}
	}
	all := strings.Split(text, "\n")
	w := Window{Total: len(all)}
	w.Last = w.Total
	if last > 0 && last < w.Total {
		w.Last = last
	}
	w.First = max(w.Last-size+1, 1)
	begin := min(size/4, w.First-1) // an item that began before is shown from its beginning
	lines := all[w.First-begin-1 : w.Last]
	for begin > 0 && strings.HasPrefix(lines[begin], bar) {
		begin, w.First = begin-1, w.First-1
	}
	lines = lines[begin:]
	w.Items = itemsOf(lines, w.First)
	return w
}

// Match is a line in which something was found.
type Match struct {
	Line int
	Text string
}

// Find finds a text in lines, whatever its case: at most most of them, and whether there are more.
func Find(text, query string, most int) (found []Match, more bool) {
	query = strings.ToLower(strings.TrimSpace(query))
	if query == "" {
		return nil, false
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		if !strings.Contains(strings.ToLower(line), query) {
			continue
		}
		if len(found) == most {
			return found, true
		}
		found = append(found, Match{n, safetext.Clip(line, 240)})
	}
	return found, false
}
