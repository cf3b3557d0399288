package main

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/hinshun/vt10x"
)

// A cell's size, the baseline of its text, and the border, in pixels.
const cellWidth, cellHeight, baseline, border = 8, 18, 14, 14

// bold is the bit of a cell's mode for bold text, which vt10x does not export.
const bold = 1 << 2

const background, foreground = "#1e1e2e", "#cdd6f4"

// palette are the 16 colours of a terminal.
var palette = [16]string{
	"#45475a", "#f38ba8", "#a6e3a1", "#f9e2af", "#89b4fa", "#f5c2e7", "#94e2d5", "#bac2de",
	"#6c7086", "#f38ba8", "#a6e3a1", "#f9e2af", "#89b4fa", "#f5c2e7", "#94e2d5", "#ffffff",
}

// draw writes frames as an animated SVG. A program that does not animate shows the
// last frame. A line that several frames have is written once.
func draw(to io.Writer, frames []frame) error {
	width, height := columns*cellWidth+2*border, rows*cellHeight+2*border
	ids := map[string]int{}
	var lines, groups strings.Builder
	total := 0.0
	for _, f := range frames {
		total += f.shown.Seconds()
	}
	from := 0.0
	for i, f := range frames {
		visibility := "hidden"
		if i == len(frames)-1 {
			visibility = "visible"
		}
		until := from + f.shown.Seconds()
		fmt.Fprintf(&groups, "<g visibility=%q>%s\n", visibility, animation(from/total, until/total, total))
		for y, cells := range f.cells {
			text := line(cells)
			if text == "" {
				continue
			}
			if _, ok := ids[text]; !ok {
				ids[text] = len(ids)
				fmt.Fprintf(&lines, "<g id=\"l%d\">%s</g>\n", ids[text], text)
			}
			fmt.Fprintf(&groups, "<use href=\"#l%d\" x=\"%d\" y=\"%d\"/>", ids[text], border, border+y*cellHeight)
		}
		groups.WriteString("</g>\n")
		from = until
	}
	w := bufio.NewWriter(to)
	fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" xml:space=\"preserve\" viewBox=\"0 0 %d %d\" width=\"%d\" "+
		"height=\"%d\">\n", width, height, width, height)
	fmt.Fprint(w, "<title>maestro demo in a terminal</title>\n<style>text{font:13px ui-monospace,Menlo,Consolas,'DejaVu Sans "+
		"Mono',monospace;white-space:pre}</style>\n")
	fmt.Fprintf(w, "<rect width=\"100%%\" height=\"100%%\" rx=\"8\" fill=\"%s\"/>\n<defs>\n%s</defs>\n%s</svg>\n", background,
		lines.String(), groups.String())
	return w.Flush()
}

// animation shows its parent between two parts of the whole time.
func animation(from, until, seconds float64) string {
	values, times := "hidden;visible;hidden", fmt.Sprintf("0;%.4f;%.4f", from, until)
	switch {
	case from == 0:
		values, times = "visible;hidden", fmt.Sprintf("0;%.4f", until)
	case until > 0.9999:
		values, times = "hidden;visible", fmt.Sprintf("0;%.4f", from)
	}
	return fmt.Sprintf("<animate attributeName=\"visibility\" values=%q keyTimes=%q dur=\"%.1fs\" calcMode=\"discrete\" "+
		"repeatCount=\"indefinite\"/>",
		values, times, seconds)
}

// line is one line of the screen: a text for each run of cells that look alike.
func line(cells [columns]vt10x.Glyph) string {
	var b strings.Builder
	for from := 0; from < columns; {
		until := from + 1
		for until < columns && alike(cells[until], cells[from]) {
			until++
		}
		piece(&b, cells[from:until], from)
		from = until
	}
	return b.String()
}

func alike(a, b vt10x.Glyph) bool { return a.FG == b.FG && a.BG == b.BG && a.Mode == b.Mode }

// piece writes cells that look alike, from a column on.
func piece(b *strings.Builder, cells []vt10x.Glyph, column int) {
	if fill := colour(cells[0].BG, background); fill != background {
		fmt.Fprintf(b, "<rect x=\"%d\" width=\"%d\" height=\"%d\" fill=%q/>", column*cellWidth, len(cells)*cellWidth, cellHeight, fill)
	}
	for len(cells) > 0 && blank(cells[0]) {
		cells, column = cells[1:], column+1
	}
	for len(cells) > 0 && blank(cells[len(cells)-1]) {
		cells = cells[:len(cells)-1]
	}
	if len(cells) == 0 {
		return
	}
	var text strings.Builder
	for _, c := range cells {
		text.WriteRune(max(c.Char, ' '))
	}
	weight := ""
	if cells[0].Mode&bold != 0 {
		weight = " font-weight=\"bold\""
	}
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" textLength=\"%d\" fill=%q%s>%s</text>",
		column*cellWidth, baseline, len(cells)*cellWidth, colour(cells[0].FG, foreground), weight, html.EscapeString(text.String()))
}

func blank(c vt10x.Glyph) bool { return c.Char == ' ' || c.Char == 0 }

// colour is a colour of the terminal for SVG, or otherwise for the terminal's own.
func colour(c vt10x.Color, otherwise string) string {
	switch {
	case c < 16:
		return palette[c]
	case c < 232:
		c -= 16
		level := func(n vt10x.Color) int {
			if n == 0 {
				return 0
			}
			return 55 + 40*int(n)
		}
		return fmt.Sprintf("#%02x%02x%02x", level(c/36), level(c/6%6), level(c%6))
	case c < 256:
		grey := 8 + 10*int(c-232)
		return fmt.Sprintf("#%02x%02x%02x", grey, grey, grey)
	case c < 1<<24:
		return fmt.Sprintf("#%06x", uint32(c))
	default:
		return otherwise
	}
}
