package transcript

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

const (
	// MaxItem bounds one item of a transcript, in bytes. Where an item is cut, the
	// transcript says how much is missing.
	MaxItem = 64 << 10
	// maxHeading bounds the first line of an item, in bytes. A longer one is repeated
	// whole below it.
	maxHeading = 200
)

// The marks that begin the first line of an item. bar begins the lines that belong to the item above them.
const turn, asked, thought, call, result, warning, note, bar = "-- ", "? ", "~ ", "> ", "< ", "! ", "maestro: ", "  │"

func withoutBar(line string) string { return strings.TrimPrefix(strings.TrimPrefix(line, bar), " ") }

// Writer writes a transcript. Errors of the underlying writer are ignored: a
// transcript that cannot be written is no reason not to work.
type Writer struct {
	out  io.Writer
	mask func(string) string
	// line is the end of what the agent says as long as it is not a whole line, and
	// blank counts the blank lines before it: they are written if more follows.
	line  strings.Builder
	blank int
	said  bool
}

// New writes to out. mask replaces secrets; each item is masked as a whole before it
// is laid out.
func New(out io.Writer, mask func(string) string) *Writer { return &Writer{out: out, mask: mask} }

// Piece adds to what the agent says. Whole lines are written at once; the last one
// when the next item begins, or at [Writer.End]. It returns the lines written.
func (w *Writer) Piece(text string) (lines []string) {
	for {
		line, rest, whole := strings.Cut(text, "\n")
		w.line.WriteString(line)
		if !whole {
			return lines
		}
		if line, ok := w.endLine(); ok {
			lines = append(lines, line)
		}
		text = rest
	}
}

// endLine writes the line that has ended, unless it is blank: blank lines at the
// beginning and the end of what is said are left out.
func (w *Writer) endLine() (line string, ok bool) {
	line = strings.TrimRight(strings.ToValidUTF8(w.line.String(), "\uFFFD"), " \t\r")
	w.line.Reset()
	if strings.TrimSpace(line) == "" {
		w.blank++
		return "", false
	}
	if !w.said {
		w.blank = 0
	}
	line = w.mask(line)
	w.write(strings.Repeat("\n", w.blank) + line)
	w.blank, w.said = 0, true
	return line, true
}

// End ends what the agent says. It returns the line written, if there was one.
func (w *Writer) End() (line string) {
	if w.line.Len() > 0 {
		line, _ = w.endLine()
	}
	w.blank, w.said = 0, false
	return line
}

// Text is something that the agent says, whole.
func (w *Writer) Text(text string) {
	w.Piece(bounded(w.mask(text)))
	w.End()
}

// Turn marks the turns of a model, and what is known of them.
func (w *Writer) Turn(format string, args ...any) { w.item(turn, fmt.Sprintf(format, args...), "") }

// Asked is a part of what a model is asked: who says it, or what it is, and the text.
func (w *Writer) Asked(who, text string) {
	text = strings.TrimSpace(text)
	if first, rest, more := strings.Cut(text, "\n"); !more {
		w.item(asked, who+": "+text, "")
	} else {
		w.item(asked, who+": "+first, rest)
	}
}

// Thought is what a model thinks.
func (w *Writer) Thought(text string) { w.item(thought, text, "") }

// Call is a tool call: its gist in a few words, and all there is to it, which may be
// empty.
func (w *Writer) Call(gist, detail string) { w.item(call, gist, detail) }

// Result is what a tool call brought. gist names the call, and is empty where it is
// the last one.
func (w *Writer) Result(gist, text string, failed bool) {
	text = strings.TrimSpace(text)
	if failed {
		text = strings.TrimSpace("failed: " + text)
	}
	first, _, more := strings.Cut(text, "\n")
	switch {
	case gist == "" && text == "":
	case gist == "":
		w.item(result, text, "")
	case more || len(gist)+len(first) > maxHeading:
		w.item(result, gist, text)
	default:
		w.item(result, gist+": "+text, "")
	}
}

// Warn tells of something that went wrong.
func (w *Writer) Warn(text string) { w.item(warning, text, "") }

// Note is a remark of Maestro's own.
func (w *Writer) Note(format string, args ...any) {
	w.item(note, fmt.Sprintf(format, args...), "")
}

// item writes an item. A heading of several lines, or one that is too long, is
// shortened, and its rest goes before the detail.
func (w *Writer) item(mark, heading, detail string) {
	w.End()
	heading, detail = strings.TrimSpace(w.mask(heading)), w.mask(strings.Trim(detail, "\n"))
	first, rest, more := strings.Cut(heading, "\n")
	switch {
	case len(first) > maxHeading:
		detail = strings.TrimRight(heading+"\n"+detail, "\n")
		first = textfmt.Shorten(first, maxHeading)
	case more:
		detail = strings.TrimRight(rest+"\n"+detail, "\n")
	}
	var b strings.Builder
	b.WriteString(mark + strings.TrimSpace(first))
	if detail != "" {
		for line := range strings.SplitSeq(bounded(detail), "\n") {
			b.WriteString("\n" + bar + " " + strings.TrimRight(line, "\r"))
		}
	}
	w.write(b.String())
}

func (w *Writer) write(text string) { _, _ = io.WriteString(w.out, text+"\n") }

// bounded cuts a text to MaxItem, and says what is missing.
func bounded(text string) string {
	if len(text) <= MaxItem {
		return text
	}
	kept := strings.ToValidUTF8(text[:MaxItem], "")
	return fmt.Sprintf("%s\n… %d more bytes are not kept …", kept, len(text)-len(kept))
}

// Gist is a tool call in a few words, and the rest of its arguments in detail: texts
// that replace each other as the lines of a difference, files as they are. arguments is
// a JSON object; anything else is the gist itself.
func Gist(tool string, arguments json.RawMessage) (gist, detail string) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(arguments, &fields) != nil {
		return strings.TrimSpace(tool + " " + plain(arguments)), ""
	}
	gist = tool
	for _, name := range mainFields {
		if text := plain(fields[name]); text != "" {
			gist += " " + text
			delete(fields, name)
			break
		}
	}
	var parts []string
	for _, name := range slices.SortedFunc(maps.Keys(fields), byMeaning) {
		text := plain(fields[name])
		switch {
		case text == "":
		case slices.Contains(oldFields, name):
			parts = append(parts, Marked("- ", text))
		case slices.Contains(newFields, name):
			parts = append(parts, Marked("+ ", text))
		case slices.Contains(wholeFields, name):
			parts = append(parts, text)
		default:
			parts = append(parts, name+": "+text)
		}
	}
	return gist, strings.Join(parts, "\n")
}

// The fields of tool calls as agent programs call them.
var (
	mainFields  = []string{"command", "cmd", "file_path", "path", "absolute_path", "pattern", "query", "url", "prompt", "name"}
	oldFields   = []string{"old_string", "old_str", "old"}
	newFields   = []string{"new_string", "new_str", "new"}
	wholeFields = []string{"content", "file_text", "new_source", "summary"}
)

// byMeaning orders fields: what is short first, then the old text, the new one, and
// files.
func byMeaning(a, b string) int {
	rank := func(name string) int {
		for i, fields := range [][]string{oldFields, newFields, wholeFields} {
			if slices.Contains(fields, name) {
				return i + 1
			}
		}
		return 0
	}
	if x, y := rank(a), rank(b); x != y {
		return x - y
	}
	return strings.Compare(a, b)
}

// plain is a JSON value as people read it: the text of a string, or the JSON itself.
func plain(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

// Marked is a text with a mark before each line; empty for an empty one.
func Marked(mark, text string) string {
	if text == "" {
		return ""
	}
	return mark + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+mark)
}
