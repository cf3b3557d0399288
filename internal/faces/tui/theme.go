package tui

import (
	"strings"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// theme paints text. Switched off it leaves text alone: the drawing says everything without colours, too.
type theme struct{ terminal.Palette }

// The colours by their meaning.
const (
	strong = terminal.Bold
	faint  = terminal.Dim
	active = terminal.Cyan
	slow   = terminal.Yellow
	bad    = terminal.Red
)

// look is how a state is drawn: a sign, a word, the sign that fills its part of a bar, and a colour.
type look struct {
	sign, word, fill string
	colour           terminal.Colour
}

// looks are those of all states, without their colours.
var looks = map[session.State]look{
	session.Completed:         {sign: "✓", word: "completed", fill: "━"},
	session.Restored:          {sign: "✓", word: "restored", fill: "━"},
	session.Supplied:          {sign: "✓", word: "supplied", fill: "━"},
	session.Skipped:           {sign: "-", word: "skipped", fill: "━"},
	session.Running:           {sign: "●", word: "running", fill: "╍"},
	session.Admitted:          {sign: "●", word: "admitted", fill: "╍"},
	session.Waiting:           {sign: "◌", word: "waiting", fill: "╍"},
	session.WaitingForBreaker: {sign: "◌", word: "waiting for a breaker", fill: "╍"},
	session.AwaitingApproval:  {sign: "?", word: "waiting for approval", fill: "╍"},
	session.HelpIsNeeded:      {sign: "!", word: "needs help", fill: "×"},
	session.Failed:            {sign: "✗", word: "failed", fill: "×"},
	session.WasCancelled:      {sign: "✗", word: "cancelled", fill: "×"},
	session.Pending:           {sign: "○", word: "pending", fill: "·"},
}

func lookOf(s session.State) look {
	l, known := looks[s]
	if !known {
		l = look{sign: "○", word: safe(string(s)), fill: "·"}
	}
	l.colour = terminal.StateColour(s)
	return l
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
		b.WriteString(t.Paint(l.colour, strings.Repeat(l.fill, i-from)))
	}
	return b.String()
}
