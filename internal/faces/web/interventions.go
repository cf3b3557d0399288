package web

import (
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
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
