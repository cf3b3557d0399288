package control

import (
	"slices"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
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
	spec.Phase
	// Without lists phases that this one depends on and that have no work: it runs without them.
	Without  []string         `json:"without"`
	Personas []PlannedPersona `json:"personas"`
	// PauseAfter: the session pauses after the phase until it is resumed.
	PauseAfter bool `json:"pause_after"`
}

// PlannedPersona is a persona in a phase, without its instructions, and what happens to its work.
type PlannedPersona struct {
	session.PlanEntry
	spec.Persona
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
	personas := t.Outline().Personas
	for _, p := range t.Written().InOrder() {
		name := p.Name
		phase := PlannedPhase{
			Phase: *p, Without: []string{}, Personas: []PlannedPersona{}, PauseAfter: slices.Contains(c.PauseAfter, name),
		}
		for _, above := range t.Ancestors(name) {
			if left[above] && !left[name] {
				phase.Without = append(phase.Without, above)
			}
		}
		for _, e := range entries {
			if e.Phase == name {
				phase.Personas = append(phase.Personas, PlannedPersona{e, personas[e.Persona]})
			}
		}
		doc.Phases = append(doc.Phases, phase)
	}
	return doc
}

// emptyNotNull is a list that is [] in JSON if it is empty.
func emptyNotNull(list []string) []string { return append([]string{}, list...) }
