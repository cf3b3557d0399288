package workflows

import (
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// agentOf returns the agent for an assignment.
func (s *sessionRun) agentOf(a *assignment) string {
	if a.Substitute != "" {
		return a.Substitute
	}
	return s.Team.Personas[a.Persona].Agent
}

// fallbackOf returns the agent that may replace the persona's own agent; empty:
// there is none.
func (s *sessionRun) fallbackOf(a *assignment) string {
	return s.Fallbacks[s.Team.Personas[a.Persona].Agent]
}

// chooseAgent decides who does the next round after a failed one: the persona's
// own agent, unless that is too expensive or has declined and there is another.
func (s *sessionRun) chooseAgent(a *assignment, f failures.Failure) {
	if a.Degraded {
		return
	}
	a.Substitute = ""
	if s.Team.Personas[a.Persona].Fallback && failures.RuleFor(f.Category).Fallback {
		a.Substitute = s.fallbackOf(a)
	}
}

// onExceeded returns what the session does if a budget does not permit an
// assignment's next call.
func (s *sessionRun) onExceeded(a *assignment) spec.OnExceeded {
	wanted := s.Team.Budget.OnExceeded
	if wanted == spec.OnExceededDegrade && (a.Degraded || s.fallbackOf(a) == "") {
		return spec.OnExceededStop
	}
	return wanted
}
