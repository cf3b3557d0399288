package terminal

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/maestro-hive/maestro/internal/safetext"
)

// Table aligns columns.
type Table struct {
	paint Palette
	rows  [][]Cell
}

// NewTable is a table without rows.
func NewTable(p Palette) *Table { return &Table{paint: p} }

// Cell is what one row has in one column.
type Cell struct {
	text   string
	colour Colour
}

// Plain is a cell without a colour.
func Plain(text string) Cell { return Painted(text, "") }

// Painted is a cell in a colour, which takes no room. It keeps the text's indentation.
func Painted(text string, c Colour) Cell {
	indent := len(text) - len(strings.TrimLeft(text, " "))
	return Cell{text[:indent] + safetext.Line(text), c}
}

// Head adds a row of columns' names.
func (t *Table) Head(names ...string) {
	row := make([]Cell, len(names))
	for i, n := range names {
		row[i] = Painted(n, Bold)
	}
	t.rows = append(t.rows, row)
}

// Add adds a row.
func (t *Table) Add(cells ...Cell) { t.rows = append(t.rows, cells) }

// The last column of a table that is to fit gets no narrower than leastWords, and is
// as wide as usualWords where nobody knows the width that there is.
const (
	leastWords = 20
	usualWords = 60
)

// Fit clips the last column, so that lines are at most width characters long as far
// as the other columns let them. Zero: the width is not known, as of a file.
func (t *Table) Fit(width int) {
	widths := t.widths()
	last := len(widths) - 1
	room := usualWords
	if width > 0 {
		room = width
		for _, w := range widths[:last] {
			room -= w + columnGap
		}
		room = max(room, leastWords)
	}
	for _, row := range t.rows {
		if len(row) > last {
			row[last].text = safetext.Clip(row[last].text, room)
		}
	}
}

// Drop takes columns away that are named so at their head, the first of these first, for as
// long as lines would be wider than width with the last column at its narrowest. Zero: the
// width is not known.
func (t *Table) Drop(width int, names ...string) {
	if width <= 0 {
		return
	}
	widths := t.widths()
	last := len(widths) - 1
	line := min(widths[last], leastWords)
	for _, w := range widths[:last] {
		line += w + columnGap
	}
	gone := map[int]bool{}
	for _, name := range names {
		if line <= width {
			break
		}
		if i := slices.IndexFunc(t.rows[0], func(c Cell) bool { return c.text == name }); i >= 0 {
			gone[i] = true
			line -= widths[i] + columnGap
		}
	}
	for i, row := range t.rows {
		var kept []Cell
		for column, c := range row {
			if !gone[column] {
				kept = append(kept, c)
			}
		}
		t.rows[i] = kept
	}
}

const columnGap = 2

// widths are the columns'.
func (t *Table) widths() []int {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	return widths
}

// Write prints the table, two spaces between columns and none at line ends.
func (t *Table) Write(w io.Writer) {
	widths := t.widths()
	for _, row := range t.rows {
		var b strings.Builder
		gap := 0
		for i, c := range row {
			if c.text == "" {
				gap += widths[i] + columnGap
				continue
			}
			b.WriteString(strings.Repeat(" ", gap) + t.paint.Paint(c.colour, c.text))
			gap = widths[i] - utf8.RuneCountInString(c.text) + columnGap
		}
		_, _ = fmt.Fprintln(w, b.String())
	}
}
