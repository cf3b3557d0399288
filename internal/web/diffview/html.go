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

// Table is the file's lines as a table of HTML. All text in it is escaped here.
func (c Colourer) Table(f File) template.HTML {
	var w writer
	caption := template.HTMLEscapeString("Changes of " + safetext.Name(f.Path))
	w.WriteString(`<table class="diff unified"><caption class="sr-only">` + caption + `</caption>`)
	l := lexer(f.Path)
	for _, h := range f.Hunks {
		w.hunk(h, c.paint(l, h))
	}
	w.WriteString(`</table>`)
	return template.HTML(w.String()) //nolint:gosec // the writer escapes all text
}

// paint has the tokens of a hunk's lines. It colours both sides of the hunk, each as a text of its own.
func (c Colourer) paint(l chroma.Lexer, h Hunk) [][]token {
	painted := make([][]token, len(h.Lines))
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
				painted[at[i]] = tokens
			}
		}
	}
	return painted
}

// writer writes the rows of a table.
type writer struct{ strings.Builder }

func (w *writer) hunk(h Hunk, painted [][]token) {
	context := template.HTMLEscapeString(h.Context)
	fmt.Fprintf(w, `<tbody><tr class="hunk"><td colspan="3">Lines from %d <span>%s</span></td></tr>`, max(h.New, 1), context)
	for i, l := range h.Lines {
		w.WriteString(`<tr class="` + className(l.Kind) + `">`)
		w.number(l.Old)
		w.number(l.New)
		w.cell(l, painted[i])
		w.WriteString("</tr>")
	}
	w.WriteString("</tbody>")
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
	w.WriteString(`<td class="ln"`)
	if n > 0 {
		w.WriteString(` data-n="` + strconv.Itoa(n) + `"`)
	}
	w.WriteString("></td>")
}

// cell writes a line. A screen reader reads what became of it, a copy has the line alone.
func (w *writer) cell(l Line, tokens []token) {
	w.WriteString(`<td class="code ` + className(l.Kind) + `">`)
	switch l.Kind {
	case Added:
		w.WriteString(`<span class="sr-only">added: </span>`)
	case Removed:
		w.WriteString(`<span class="sr-only">removed: </span>`)
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
	w.line(text, tokens)
	if cut > 0 {
		fmt.Fprintf(w, `<span class="cut">… %d more bytes</span>`, cut)
	}
	if l.NoEnd {
		w.WriteString(`<span class="cut"> (no line end)</span>`)
	}
	w.WriteString("</td>")
}

// line writes a text in its parts, each in one colour.
func (w *writer) line(text string, tokens []token) {
	at := 0
	for _, t := range append(tokens[:len(tokens):len(tokens)], token{to: len(text)}) {
		end := min(t.to, len(text))
		if end <= at {
			continue
		}
		if t.class != "" {
			w.WriteString(`<span class="` + t.class + `">`)
		}
		WriteVisible(&w.Builder, text[at:end])
		if t.class != "" {
			w.WriteString("</span>")
		}
		at = end
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
