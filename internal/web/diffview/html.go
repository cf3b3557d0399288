package diffview

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/chroma/v2"

	"github.com/maestro-hive/maestro/internal/safetext"
)

// View is how lines are laid out.
type View string

// The views.
const (
	Unified View = "unified"
	Split   View = "split"
)

// Table is the file's lines as a table of HTML. All text in it is escaped here.
func (c Colourer) Table(f File, view View) template.HTML {
	w := writer{view: view}
	w.text.WriteString(`<table class="diff ` + string(view) + `"><caption class="sr-only">` + template.HTMLEscapeString("Changes of "+safetext.Name(f.Path)) + `</caption>`)
	if view == Split {
		w.text.WriteString(`<colgroup><col class="ln"><col><col class="ln"><col></colgroup>`)
	}
	l := lexer(f.Path)
	for _, h := range f.Hunks {
		w.hunk(h, c.paint(l, h))
	}
	w.text.WriteString(`</table>`)
	return template.HTML(w.text.String()) //nolint:gosec // the writer escapes all text
}

// painted has the tokens of a hunk's lines, and what changed inside of them.
type painted struct {
	tokens  [][]token
	changes [][]span
}

// paint colours both sides of a hunk, each as a text of its own.
func (c Colourer) paint(l chroma.Lexer, h Hunk) painted {
	p := painted{make([][]token, len(h.Lines)), make([][]span, len(h.Lines))}
	for _, skipped := range []Kind{Added, Removed} {
		var lines []string
		var at []int
		for i, line := range h.Lines {
			if line.Kind != skipped {
				lines, at = append(lines, line.Text), append(at, i)
			}
		}
		for i, tokens := range c.colour(l, lines) {
			if i < len(at) {
				p.tokens[at[i]] = tokens
			}
		}
	}
	for _, b := range blocks(h.Lines) {
		for _, r := range b.rows(h.Lines) {
			if r.left >= 0 && r.right >= 0 {
				p.changes[r.left], p.changes[r.right] = changed(h.Lines[r.left].Text, h.Lines[r.right].Text)
			}
		}
	}
	return p
}

// block is a run of removed lines and the added ones after it, by their places.
type block struct{ removed, added []int }

func blocks(lines []Line) []block {
	var out []block
	var b block
	for i, l := range lines {
		switch {
		case l.Kind == Removed && len(b.added) > 0, l.Kind == Same && len(b.removed)+len(b.added) > 0:
			out, b = append(out, b), block{}
		}
		switch l.Kind {
		case Removed:
			b.removed = append(b.removed, i)
		case Added:
			b.added = append(b.added, i)
		case Same:
		}
	}
	if len(b.removed)+len(b.added) > 0 {
		out = append(out, b)
	}
	return out
}

// row is a removed line beside an added one; negative: there is none on that side.
type row struct{ left, right int }

// maxAhead is how many added lines are looked at for the one that replaces a removed line.
const maxAhead = 8

// rows lays the removed lines of a block beside the added ones that replace them, so far as
// both have enough in common, and the others beside each other.
func (b block) rows(lines []Line) []row {
	var rows []row
	left, right := 0, 0
	fill := func(toLeft, toRight int) {
		for left < toLeft || right < toRight {
			r := row{-1, -1}
			if left < toLeft {
				r.left, left = b.removed[left], left+1
			}
			if right < toRight {
				r.right, right = b.added[right], right+1
			}
			rows = append(rows, r)
		}
	}
	for i := range b.removed {
		for j := right; j < min(right+maxAhead, len(b.added)); j++ {
			old, now := lines[b.removed[i]].Text, lines[b.added[j]].Text
			if gone, come := changed(old, now); gone != nil || come != nil || old == now {
				fill(i, j)
				fill(i+1, j+1)
				break
			}
		}
	}
	fill(len(b.removed), len(b.added))
	return rows
}

// writer writes the rows of a table.
type writer struct {
	view View
	text strings.Builder
}

func (w *writer) hunk(h Hunk, p painted) {
	columns := 3
	if w.view == Split {
		columns = 4
	}
	fmt.Fprintf(&w.text, `<tbody><tr class="hunk"><td colspan="%d">Lines from %d <span>%s</span></td></tr>`,
		columns, max(h.New, 1), template.HTMLEscapeString(h.Context))
	if w.view == Split {
		w.split(h, p)
	} else {
		for i, l := range h.Lines {
			w.text.WriteString(`<tr class="` + className(l.Kind) + `">`)
			w.number(l.Old)
			w.number(l.New)
			w.cell(l, p.tokens[i], p.changes[i])
			w.text.WriteString("</tr>")
		}
	}
	w.text.WriteString("</tbody>")
}

// split lays removed lines beside the added ones.
func (w *writer) split(h Hunk, p painted) {
	side := func(i int, old bool) {
		if i < 0 {
			w.text.WriteString(`<td class="ln none"></td><td class="none"></td>`)
			return
		}
		l := h.Lines[i]
		n := l.New
		if old {
			n = l.Old
		}
		w.number(n)
		w.cell(l, p.tokens[i], p.changes[i])
	}
	both := func(left, right int) {
		w.text.WriteString("<tr>")
		side(left, true)
		side(right, false)
		w.text.WriteString("</tr>")
	}
	at := 0
	same := func(to int) {
		for ; at < to; at++ {
			both(at, at)
		}
	}
	for _, b := range blocks(h.Lines) {
		first := append(append([]int{}, b.removed...), b.added...)[0]
		same(first)
		for _, r := range b.rows(h.Lines) {
			both(r.left, r.right)
		}
		at = first + len(b.removed) + len(b.added)
	}
	same(len(h.Lines))
}

func className(k Kind) string {
	switch k {
	case Added:
		return "add"
	case Removed:
		return "del"
	case Same:
	}
	return "same"
}

func (w *writer) number(n int) {
	w.text.WriteString(`<td class="ln"`)
	if n > 0 {
		w.text.WriteString(` data-n="` + strconv.Itoa(n) + `"`)
	}
	w.text.WriteString("></td>")
}

// cell writes a line. A screen reader reads what became of it, a copy has the line alone.
func (w *writer) cell(l Line, tokens []token, changes []span) {
	w.text.WriteString(`<td class="code ` + className(l.Kind) + `">`)
	switch l.Kind {
	case Added:
		w.text.WriteString(`<span class="sr-only">added: </span>`)
	case Removed:
		w.text.WriteString(`<span class="sr-only">removed: </span>`)
	case Same:
	}
	text, cut := l.Text, 0
	if len(text) > maxLine {
		end := maxLine
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		cut, text = len(text)-end, text[:end]
	}
	w.line(text, tokens, changes)
	if cut > 0 {
		fmt.Fprintf(&w.text, `<span class="cut">… %d more bytes</span>`, cut)
	}
	if l.NoEnd {
		w.text.WriteString(`<span class="cut"> (no line end)</span>`)
	}
	w.text.WriteString("</td>")
}

// line writes a text in its parts: each has one colour, and is changed or not.
func (w *writer) line(text string, tokens []token, changes []span) {
	at, t, c := 0, 0, 0
	for at < len(text) {
		end, class, marked := len(text), "", false
		for t < len(tokens) && tokens[t].to <= at {
			t++
		}
		if t < len(tokens) {
			end, class = min(end, tokens[t].to), tokens[t].class
		}
		for c < len(changes) && changes[c].to <= at {
			c++
		}
		if c < len(changes) {
			if marked = changes[c].from <= at; marked {
				end = min(end, changes[c].to)
			} else {
				end = min(end, changes[c].from)
			}
		}
		w.part(text[at:end], class, marked)
		at = end
	}
}

func (w *writer) part(text, class string, marked bool) {
	if marked {
		w.text.WriteString("<mark>")
	}
	if class != "" {
		w.text.WriteString(`<span class="` + class + `">`)
	}
	WriteVisible(&w.text, text)
	if class != "" {
		w.text.WriteString("</span>")
	}
	if marked {
		w.text.WriteString("</mark>")
	}
}

// WriteVisible writes a text as HTML in which characters that are not seen, or that turn the
// direction of writing, are shown by their code.
func WriteVisible(b *strings.Builder, text string) {
	if safetext.Source(text) == text {
		b.WriteString(template.HTMLEscapeString(text))
		return
	}
	plain := 0
	for i := 0; i < len(text); {
		_, size := utf8.DecodeRuneInString(text[i:])
		r := text[i : i+size]
		if shown := safetext.Source(r); shown != r {
			b.WriteString(template.HTMLEscapeString(text[plain:i]))
			b.WriteString(`<span class="unseen">` + template.HTMLEscapeString(shown) + `</span>`)
			plain = i + size
		}
		i += size
	}
	b.WriteString(template.HTMLEscapeString(text[plain:]))
}

// Visible is [WriteVisible] for a template.
func Visible(text string) template.HTML {
	var b strings.Builder
	WriteVisible(&b, text)
	return template.HTML(b.String()) //nolint:gosec // all text is escaped
}
