package terminal

import (
	"github.com/maestro-hive/maestro/internal/core/session"
)

// Colour is how text is painted; empty: not at all.
type Colour string

// The colours are the terminal's own, so that they suit its background.
const (
	Red    Colour = "31"
	Green  Colour = "32"
	Yellow Colour = "33"
	Cyan   Colour = "36"
	Bold   Colour = "1"
	Dim    Colour = "2"
)

// StateColour is the colour of what a state means to a person.
func StateColour(s session.State) Colour {
	switch s {
	case session.Completed, session.Restored, session.Supplied, session.Skipped:
		return Green
	case session.Failed, session.HelpIsNeeded, session.WasCancelled:
		return Red
	case session.Running, session.Admitted:
		return Cyan
	case session.Waiting, session.WaitingForBreaker, session.AwaitingApproval:
		return Yellow
	case session.Pending:
		return Dim
	}
	return ""
}

// Palette paints text. Its zero value leaves text alone.
type Palette struct {
	// On: what is written goes to a terminal that shows colours.
	On bool
}

// Paint is text in a colour, and in none again after it.
func (p Palette) Paint(c Colour, text string) string {
	if !p.On || text == "" || c == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// State is a state's name in the colour of its meaning.
func (p Palette) State(s session.State) string { return p.Paint(StateColour(s), string(s)) }
