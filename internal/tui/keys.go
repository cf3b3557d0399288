package tui

import (
	"cmp"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
)

// helpText says what can be typed and what the signs mean; what is explained stands
// before a tab.
const helpText = "up, down, k, j\tselect an assignment\n" +
	"home, end, g, G\tselect the first, the last\n" +
	"l, enter\tthe logs of the selected assignment: output of finished attempts and current activity\n" +
	"a, x, r, +\tapprove, reject, retry, raise a budget, with a note: tab selects another request, enter sends, esc cancels\n" +
	"f\tthe session's files so far; enter shows one\n" +
	"w\tthe address of the session's page in Temporal's Web UI, copied to the clipboard if the terminal supports it\n" +
	"?\tthis help\n" +
	"esc\tclose the current page\n" +
	"q, Ctrl-C\tquit; the session continues\n" +
	"\n" +
	"In logs, files and here: up, down, page up, page down, home, end scroll.\n" +
	"\n" +
	"✓ done   ● running   ◌ waiting   ○ pending   ! needs a person\n" +
	"? waiting for approval   ✗ failed   - skipped\n" +
	"\n" +
	"r2 a3\tround 2, attempt 3: a failed attempt is repeated within its round; a failed round is followed by another one after a delay\n" +
	"p2, pass 2\tthe work was started again: it was sent back, or a person chose retry\n" +
	"time, cost\ttotals of the assignment over all attempts and passes\n"

// explained lays out a line of helpText: beside what stands before the tab, its
// explanation has a column of its own.
func explained(line string, width int) []string {
	const column, widest = 18, 80
	term, text, ok := strings.Cut(line, "\t")
	if !ok {
		return wrap(line, width)
	}
	lines := fold(text, max(min(width, widest)-column, 1))
	for i := range lines {
		lines[i] = fit(term, column) + lines[i]
		term = ""
	}
	return lines
}

// closes reports whether a key closes what is open over the picture.
func closes(key string) bool {
	return key == "esc" || key == "q" || key == "backspace" || key == "left"
}

// scroll moves a pane's text by a key.
func scroll(p *pane, key string, height int) {
	page := max(rowsOf(height)-1, 1)
	switch key {
	case "up", "k":
		p.scroll(-1, height)
	case "down", "j", "enter":
		p.scroll(1, height)
	case "pgup", "b", "ctrl+b":
		p.scroll(-page, height)
	case "pgdown", "space", "f", "ctrl+f":
		p.scroll(page, height)
	case "home", "g":
		p.scroll(-len(p.lines), height)
	case "end", "G":
		p.scroll(len(p.lines), height)
	}
}

// listKey does what a key stands for in the list of artifacts.
func (m *Model) listKey(key string) tea.Cmd {
	l := m.list
	switch {
	case l.open != nil && closes(key):
		l.open = nil
	case l.open != nil:
		scroll(l.open, key, m.height)
	case closes(key):
		m.list = nil
		return m.closed()
	case key == "enter" || key == "l" || key == "right":
		if a, ok := l.selected(); ok {
			l.open = &pane{title: safe(a.Path), loading: true}
			l.open.resize(m.width)
			return m.readContent(l.open, a.Path)
		}
	default:
		l.move(key, m.height)
	}
	return nil
}

// footer says what can be typed at the picture.
func (m *Model) footer() string {
	if !m.options.Keys {
		return "Ctrl-C quits; the session continues"
	}
	if m.entry != nil {
		return "enter sends  esc cancels"
	}
	keys, narrow := "↑↓ select  l logs  f files  w Web UI  ? help  q quit", "↑↓  l logs  f files  ? help  q quit"
	if possible := m.answerKeys(); len(possible) > 0 {
		keys = strings.Join(possible, "  ") + "  ↑↓ select  l logs  f files  ? help  q quit"
		narrow = strings.Join(possible, "  ") + "  ? help  q quit"
	}
	if lipgloss.Width(keys) > m.width-2 {
		keys = narrow
	}
	if lipgloss.Width(keys) > m.width-2 {
		keys = "? help  q quit"
		for _, p := range slices.Backward(m.answerKeys()) {
			letter, _, _ := strings.Cut(p, " ")
			keys = letter + "  " + keys
		}
	}
	return cmp.Or(m.footnote, keys)
}

func (m *Model) paneFooter() string { return "↑↓ scroll  esc close" + m.ending() }

func (m *Model) listFooter() string {
	if m.list.open != nil {
		return m.paneFooter()
	}
	return "↑↓ select  enter show  esc close" + m.ending()
}

// ending says that only what is open keeps the program.
func (m *Model) ending() string {
	if m.ends {
		return "   (the session has ended; esc quits)"
	}
	return ""
}

func join(lines []string) string { return strings.Join(lines, "\n") }
