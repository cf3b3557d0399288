package control

import (
	"slices"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Plan is the document of a team's phases, and of what a session would do with them.
type Plan struct {
	Team        string `json:"team"`
	Description string `json:"description,omitempty"`
	// Phases, each after those that it needs.
	Phases []PlannedPhase `json:"phases"`
	// Agents and Checks are what workers have to offer for the team.
	Agents []string    `json:"agents"`
	Checks []string    `json:"checks"`
	Retry  spec.Retry  `json:"retry"`
	Budget spec.Budget `json:"budget"`
	Help   spec.Help   `json:"help"`
}

// PlannedPhase is a phase and what a session would do with it.
type PlannedPhase struct {
	Name  string   `json:"name"`
	Needs []string `json:"needs"`
	// Without lists phases that this one depends on and that have no work: it runs without them.
	Without    []string         `json:"without"`
	Order      spec.Order       `json:"order"`
	Personas   []PlannedPersona `json:"personas"`
	Produces   []string         `json:"produces"`
	Checks     []string         `json:"checks"`
	Integrator string           `json:"integrator"`
	// Approve is as in the team file; false: no approval is needed.
	Approve   spec.Approval   `json:"approve"`
	SendsBack *spec.SendsBack `json:"sends_back"`
	// Deliver is as in the team file; null: the phase does not deliver.
	Deliver *spec.Deliver `json:"deliver"`
	Budget  spec.Cap      `json:"budget"`
	// PauseAfter: the session pauses after the phase until it is resumed.
	PauseAfter bool `json:"pause_after"`
}

// PlannedPersona is a persona in a phase, and what happens to its work.
type PlannedPersona struct {
	Persona string `json:"persona"`
	Role    string `json:"role"`
	Agent   string `json:"agent"`
	// Fallback: the agent's fallback may replace it.
	Fallback bool             `json:"fallback"`
	Attempts int              `json:"attempts"`
	Timeout  textfmt.Duration `json:"timeout,omitzero"`
	MaxTurns int              `json:"max_turns,omitempty"`
	// Produces and Checks are required of an attempt in addition to the phase's.
	Produces []string `json:"produces"`
	Checks   []string `json:"checks"`
	Budget   spec.Cap `json:"budget"`
	// Action and Reason are those of the session's admission.
	Action session.PlanAction `json:"action"`
	Reason string             `json:"reason"`
}

// planned combines a team and the actions for its work.
func planned(t spec.Team, c session.Course, entries []session.PlanEntry) Plan {
	doc := Plan{
		Team: t.Name, Description: t.Description, Phases: []PlannedPhase{}, Agents: emptyNotNull(t.AgentNames()), Checks: []string{},
		Retry: t.Retry, Budget: t.Budget, Help: t.Help,
	}
	for _, use := range t.CheckUses() {
		if !slices.Contains(doc.Checks, use.Check) {
			doc.Checks = append(doc.Checks, use.Check)
		}
	}
	left := map[string]bool{}
	for _, e := range entries {
		left[e.Phase] = left[e.Phase] || e.Action == session.Leave
	}
	for _, p := range t.Written().InOrder() {
		name := p.Name
		phase := PlannedPhase{
			Name: name, Needs: emptyNotNull(p.Needs), Without: []string{}, Order: p.Order, Personas: []PlannedPersona{},
			Produces: emptyNotNull(p.Produces),
			Checks:   emptyNotNull(p.Checks), Integrator: p.Integrator, Approve: p.Approve, SendsBack: p.SendsBack, Deliver: p.Deliver,
			Budget: p.Budget, PauseAfter: slices.Contains(c.PauseAfter, name),
		}
		for _, above := range t.Ancestors(name) {
			if left[above] && !left[name] {
				phase.Without = append(phase.Without, above)
			}
		}
		for _, e := range entries {
			if e.Phase == name {
				phase.Personas = append(phase.Personas, plannedFor(e, t.Personas[e.Persona]))
			}
		}
		doc.Phases = append(doc.Phases, phase)
	}
	return doc
}

func plannedFor(e session.PlanEntry, p spec.Persona) PlannedPersona {
	return PlannedPersona{
		Persona: e.Persona, Role: p.Role, Agent: p.Agent, Fallback: p.Fallback, Attempts: p.Attempts, Timeout: p.Timeout,
		MaxTurns: p.MaxTurns,
		Produces: emptyNotNull(p.Produces), Checks: emptyNotNull(p.Checks), Budget: p.Budget, Action: e.Action, Reason: e.Reason,
	}
}

// emptyNotNull is a list that is [] in JSON if it is empty.
func emptyNotNull(list []string) []string { return append([]string{}, list...) }
