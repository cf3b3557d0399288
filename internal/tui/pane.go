package tui

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// pane is a text that a person scrolls through.
type pane struct {
	title string
	// text is what there is to see; empty, and loading, until it is missing.
	text    string
	loading bool
	// lay lays out a line of the text; nil: it is wrapped.
	lay func(line string, width int) []string
	// live is what is happening now, below the text.
	live string
	// offset is the first line in sight.
	offset int
	// follows says that the end stays in sight, as it does until somebody scrolls up.
	follows bool
	// lines are the text's and then what is happening now, as wrapped for width; of
	// them the first so many are the text's.
	lines []string
	texts int
	width int
}

// set replaces the text of the pane. A pane at its end remains at its end.
func (p *pane) set(text string, height int) {
	p.stay(height)
	p.text, p.loading = text, false
	p.rewrap()
}

// stay keeps the end in sight.
func (p *pane) stay(height int) {
	p.follows = p.follows || !p.loading && p.offset >= p.most(height)
}

// setLive changes what is happening now, below the text.
func (p *pane) setLive(live string, height int) {
	if live == p.live {
		return
	}
	p.stay(height)
	p.live = live
	p.rewrapLive() // long logs are not to be wrapped anew with every look at the session
}

// resize wraps the text anew where the width has changed.
func (p *pane) resize(width int) {
	if p.width != width {
		p.width = width
		p.rewrap()
	}
}

func (p *pane) rewrap() {
	p.lines = p.wrapped(nil, p.text)
	p.texts = len(p.lines)
	p.rewrapLive()
}

// rewrapLive wraps what is happening now, below the text.
func (p *pane) rewrapLive() {
	p.lines = p.lines[:p.texts]
	if p.live != "" {
		p.lines = p.wrapped(append(p.lines, ""), p.live)
	}
}

// wrapped appends the lines of a text.
func (p *pane) wrapped(lines []string, text string) []string {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if p.lay != nil {
			lines = append(lines, p.lay(line, p.width-2)...)
			continue
		}
		lines = append(lines, wrap(strings.ReplaceAll(line, "\t", "    "), p.width-2)...)
	}
	return lines
}

// most is the largest offset that leaves no room below the text.
func (p *pane) most(height int) int { return max(len(p.lines)-rowsOf(height), 0) }

// rowsOf is how many lines of text a pane of a height has, besides title and footer.
func rowsOf(height int) int { return max(height-2, 1) }

// scroll moves the text by lines, down where that is positive.
func (p *pane) scroll(lines, height int) {
	p.offset = min(max(p.offset+lines, 0), p.most(height))
	p.follows = p.offset >= p.most(height)
}

// draw draws the pane over the whole terminal.
func (p *pane) draw(t theme, width, height int, footer string) []string {
	rows := rowsOf(height)
	if p.offset = min(p.offset, p.most(height)); p.follows {
		p.offset = p.most(height)
	}
	where := ""
	switch {
	case p.loading:
		where = "reading"
	case len(p.lines) > rows:
		where = fmt.Sprintf("%d-%d of %d", p.offset+1, min(p.offset+rows, len(p.lines)), len(p.lines))
	}
	lines := []string{justify(" "+t.paint(strong, p.title), t.paint(faint, where), width-1)}
	for _, line := range p.lines[p.offset:min(p.offset+rows, len(p.lines))] {
		if !t.colours {
			line = ansi.Strip(line)
		}
		lines = append(lines, " "+clip(line, width-1))
	}
	for len(lines) <= rows {
		lines = append(lines, "")
	}
	return append(lines, t.paint(faint, " "+clip(footer, width-2)))
}
