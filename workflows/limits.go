package workflows

import (
	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/spec"
)

// limits are the caps of the team's budgets, with the raises of this run.
type limits struct {
	team   *spec.Team
	raised map[string]spec.Cap
}

// of is the cap of a budget.
func (l *limits) of(scope string) spec.Cap {
	if raised, ok := l.raised[scope]; ok {
		return raised
	}
	return budget.CapOf(*l.team, scope)
}
