package terminal

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
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
func Plain(text string) Cell { return Cell{text: text} }

// Painted is a cell in a colour, which takes no room.
func Painted(text string, c Colour) Cell { return Cell{text, c} }

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

// Write prints the table, two spaces between columns and none at line ends.
func (t *Table) Write(w io.Writer) {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for _, row := range t.rows {
		var b strings.Builder
		gap := 0
		for i, c := range row {
			if c.text == "" {
				gap += widths[i] + 2
				continue
			}
			b.WriteString(strings.Repeat(" ", gap) + t.paint.Paint(c.colour, c.text))
			gap = widths[i] - utf8.RuneCountInString(c.text) + 2
		}
		_, _ = fmt.Fprintln(w, b.String())
	}
}
