package doctor

import "github.com/maestro-hive/maestro/internal/control"

// The results of a check.
const (
	OK      = control.ResultOK
	Warning = control.ResultWarning
	Bad     = control.ResultBad
)
