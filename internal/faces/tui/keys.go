package tui

import (
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
)

// footer says what can be typed at the picture.
func (m *Model) footer() string {
	if !m.options.Keys {
		return "Ctrl-C quits; the session continues"
	}
	if m.entry != nil {
		return "enter sends  esc cancels"
	}
	keys := "↑↓ select  q quit"
	if possible := m.answerKeys(); len(possible) > 0 {
		keys = strings.Join(possible, "  ") + "  q quit"
	}
	if lipgloss.Width(keys) > m.width-2 {
		keys = "q quit"
		for _, p := range slices.Backward(m.answerKeys()) {
			letter, _, _ := strings.Cut(p, " ")
			keys = letter + "  " + keys
		}
	}
	return keys
}
