package usage

import (
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// Of is the row of a sum of calls.
func Of(c state.Cost) Row {
	return Row{
		Team: c.Team, Session: c.Session, Phase: c.Phase, Persona: c.Persona, Agent: c.Agent, Model: c.Model, Day: c.Day,
		Spending: Spending{
			Calls: c.Calls, Usage: c.Usage, Tokens: c.Usage.Tokens(),
			Unsettled: Unsettled{c.Unsettled, cost.Usage{OutputTokens: c.Estimated.Tokens, CostUSD: c.Estimated.USD}},
			Reserved:  Reserved{c.Begun, c.Reserved},
		},
	}
}
