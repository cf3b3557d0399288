package workflows

import (
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/spec"
)

// agentChoice chooses the agent of each assignment.
type agentChoice struct {
	team *spec.Team
	// fallbacks has the fallback of each agent, by agent.
	fallbacks map[string]string
}

// of returns the agent for an assignment.
func (c *agentChoice) of(a *assignment) string {
	if a.Substitute != "" {
		return a.Substitute
	}
	return c.team.Personas[a.Persona].Agent
}

// fallbackOf returns the agent that may replace the persona's own agent; empty:
// there is none.
func (c *agentChoice) fallbackOf(a *assignment) string {
	return c.fallbacks[c.team.Personas[a.Persona].Agent]
}

// afterFailure decides who does the next round after a failed one: the persona's
// own agent, unless that is too expensive or has declined and there is another.
func (c *agentChoice) afterFailure(a *assignment, f failures.Failure) {
	if a.Degraded {
		return
	}
	a.Substitute = ""
	if c.team.Personas[a.Persona].Fallback && failures.RuleFor(f.Category).Fallback {
		a.Substitute = c.fallbackOf(a)
	}
}

// onExceeded returns what the session does if a budget does not permit an
// assignment's next call.
func (c *agentChoice) onExceeded(a *assignment) spec.OnExceeded {
	wanted := c.team.Budget.OnExceeded
	if wanted == spec.OnExceededDegrade && (a.Degraded || c.fallbackOf(a) == "") {
		return spec.OnExceededStop
	}
	return wanted
}
