package tui

import (
	"fmt"

	"charm.land/lipgloss/v2"

	"github.com/maestro-hive/maestro/internal/textfmt"
)

// list is the list of artifacts, to select one of.
type list struct {
	all    []Artifact
	known  bool
	why    string
	cursor int
	// open shows the selected one; nil: it is closed.
	open *pane
}

// set takes what the list shows.
func (l *list) set(all []Artifact, err error) {
	l.all, l.known, l.why = all, true, ""
	if err != nil {
		l.why = safe(err.Error())
	}
	l.cursor = min(l.cursor, max(len(all)-1, 0))
}

// selected is the artifact at the cursor.
func (l *list) selected() (Artifact, bool) {
	if l.cursor >= len(l.all) {
		return Artifact{}, false
	}
	return l.all[l.cursor], true
}

// move moves the cursor by a key.
func (l *list) move(key string, height int) {
	by := map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -rowsOf(height), "pgdown": rowsOf(height), "space": rowsOf(height),
		"home": -len(l.all), "g": -len(l.all), "end": len(l.all), "G": len(l.all),
	}[key]
	l.cursor = min(max(l.cursor+by, 0), max(len(l.all)-1, 0))
}

// draw draws the list over the whole terminal.
func (l *list) draw(t theme, width, height int, footer string) []string {
	if l.open != nil {
		l.open.resize(width)
		return l.open.draw(t, width, height, footer)
	}
	rows := rowsOf(height)
	from := max(l.cursor-rows+1, 0)
	title := "Artifacts"
	if len(l.all) > 0 {
		title = fmt.Sprintf("Artifacts: %s", textfmt.Count(len(l.all), "file"))
	}
	lines := []string{" " + t.paint(strong, title)}
	switch {
	case !l.known:
		lines = append(lines, " "+t.paint(faint, "reading"))
	case l.why != "":
		lines = append(lines, " "+clip(l.why, width-2))
	case len(l.all) == 0:
		lines = append(lines, " no phase has created a file yet")
	}
	for i := from; i < min(from+rows, len(l.all)); i++ {
		a := l.all[i]
		mark, path := "  ", safe(a.Path)
		if i == l.cursor {
			mark, path = t.paint(active, "▸ "), t.paint(strong, path)
		}
		right := fmt.Sprintf("%s  %s", alignRight(bytes(a.Size), 7), fit(safe(a.By.String()), min(24, width/4)))
		if width < tokensFrom {
			right = alignRight(bytes(a.Size), 7)
		}
		room := max(width-4-lipgloss.Width(right), 8)
		lines = append(lines, clip(" "+mark+fit(path, room-1)+" "+t.paint(faint, right), width))
	}
	for len(lines) <= rows {
		lines = append(lines, "")
	}
	return append(lines[:rows+1], t.paint(faint, " "+clip(footer, width-2)))
}

// bytes writes a size.
func bytes(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f K", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f M", float64(n)/(1<<20))
}
