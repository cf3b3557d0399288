package terminal

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/maestro-hive/maestro/internal/core/safetext"
)

// Table aligns columns.
type Table struct {
	paint Palette
	rows  [][]Cell
}

// NewTable is a table with these names of columns, if any.
func NewTable(p Palette, heads ...string) *Table {
	t := &Table{paint: p}
	if len(heads) > 0 {
		t.rows = [][]Cell{{}}
	}
	for _, h := range heads {
		t.rows[0] = append(t.rows[0], Painted(h, Bold))
	}
	return t
}

// Cell is what one row has in one column.
type Cell struct {
	text   string
	colour Colour
}

// Painted is a cell in a colour, which takes no room. It keeps the text's indentation.
func Painted(text string, c Colour) Cell {
	indent := len(text) - len(strings.TrimLeft(text, " "))
	return Cell{text[:indent] + safetext.Line(text), c}
}

// Add adds a row of cells. A cell is a [Cell], or a value without a colour.
func (t *Table) Add(cells ...any) {
	row := make([]Cell, len(cells))
	for i, c := range cells {
		if painted, ok := c.(Cell); ok {
			row[i] = painted
		} else {
			row[i] = Painted(fmt.Sprint(c), "")
		}
	}
	t.rows = append(t.rows, row)
}

// The last column of a table that is to fit gets no narrower than leastWords, and is
// as wide as usualWords where nobody knows the width that there is.
const (
	leastWords = 20
	usualWords = 60
	columnGap  = 2
)

// Fit clips the last column, so that lines are at most width characters long as far as the other columns let them. Columns
// that are named so at their head are left out, in this order, for as long as lines would be too wide with the last column
// at its narrowest. Zero: the width is not known, as of a file.
func (t *Table) Fit(width int, drop ...string) {
	widths := t.widths()
	last := len(widths) - 1
	room, gone := usualWords, map[int]bool{}
	if width > 0 {
		room = width
		for _, w := range widths[:last] {
			room -= w + columnGap
		}
		for _, name := range drop {
			i := slices.IndexFunc(t.rows[0], func(c Cell) bool { return c.text == name })
			if i >= 0 && room < min(widths[last], leastWords) {
				gone[i] = true
				room += widths[i] + columnGap
			}
		}
		room = max(room, leastWords)
	}
	for n, row := range t.rows {
		var kept []Cell
		for i, c := range row {
			if i == last {
				c.text = safetext.Clip(c.text, room)
			}
			if !gone[i] {
				kept = append(kept, c)
			}
		}
		t.rows[n] = kept
	}
}

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
