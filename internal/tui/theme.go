package tui

import (
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/maestro-hive/maestro/internal/session"
)

// theme paints text by what it means. Switched off it leaves text alone: the
// drawing says everything without colours, too.
type theme struct{ colours bool }

// meaning is what a colour stands for. The colours are the terminal's own, so
// that they suit its background.
type meaning int

const (
	plain meaning = iota
	strong
	faint
	good
	active
	slow
	bad
)

func (t theme) paint(m meaning, text string) string {
	if !t.colours || text == "" || m == plain {
		return text
	}
	style := lipgloss.NewStyle()
	switch m {
	case strong:
		style = style.Bold(true)
	case faint:
		style = style.Faint(true)
	case good:
		style = style.Foreground(lipgloss.Green)
	case active:
		style = style.Foreground(lipgloss.Cyan)
	case slow:
		style = style.Foreground(lipgloss.Yellow)
	case bad:
		style = style.Foreground(lipgloss.Red)
	case plain:
	}
	return style.Render(text)
}

// look is how a state is drawn: a sign, a word, a colour, and the sign that fills
// its part of a bar.
type look struct {
	sign, word string
	meaning    meaning
	fill       string
}

func lookOf(s session.State) look {
	switch s {
	case session.Completed:
		return look{"✓", "completed", good, "━"}
	case session.Restored:
		return look{"✓", "restored", good, "━"}
	case session.Supplied:
		return look{"✓", "supplied", good, "━"}
	case session.Skipped:
		return look{"-", "skipped", good, "━"}
	case session.Running:
		return look{"●", "running", active, "╍"}
	case session.Admitted:
		return look{"●", "admitted", active, "╍"}
	case session.Waiting:
		return look{"◌", "waiting", slow, "╍"}
	case session.WaitingForBreaker:
		return look{"◌", "waiting for a breaker", slow, "╍"}
	case session.AwaitingApproval:
		return look{"?", "waiting for approval", slow, "╍"}
	case session.HelpIsNeeded:
		return look{"!", "needs help", bad, "×"}
	case session.Failed:
		return look{"✗", "failed", bad, "×"}
	case session.WasCancelled:
		return look{"✗", "cancelled", bad, "×"}
	case session.Pending:
		return look{"○", "pending", faint, "·"}
	}
	return look{"○", safe(string(s)), faint, "·"}
}

// bar draws the states of the parts of a whole, each as wide as the others. Runs of
// the same state are painted together.
func (t theme) bar(parts []session.State, width int) string {
	if len(parts) == 0 || width <= 0 {
		return ""
	}
	var b strings.Builder
	for i := 0; i < width; {
		state, from := parts[i*len(parts)/width], i
		for i < width && parts[i*len(parts)/width] == state {
			i++
		}
		l := lookOf(state)
		b.WriteString(t.paint(l.meaning, strings.Repeat(l.fill, i-from)))
	}
	return b.String()
}
