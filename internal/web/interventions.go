package web

import (
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// interventionText says what was done.
func interventionText(i sessionstatus.Intervention) string {
	switch {
	case i.Action == sessionstatus.Raise:
		return "Raise of " + terminal.Amount(i.Added)
	case i.Action == sessionstatus.SendBack:
		return "Send back"
	case i.Left > 0:
		return i.Action.Rule().Label + ", " + textfmt.Count(i.Left, "approval") + " to go"
	}
	return i.Action.Rule().Label
}
