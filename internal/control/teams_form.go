package control

import (
	"context"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// TeamForm is what a start of a session of a registered team takes.
type TeamForm struct {
	Team        string      `json:"team"`
	Version     spec.Digest `json:"version"`
	Description string      `json:"description"`
	// Phases, in the file's order.
	Phases []FormPhase `json:"phases"`
	// Schema is the JSON Schema of the fields of a start: those of the body of POST /sessions
	// besides the team and files.
	Schema map[string]any `json:"schema"`
}

// FormPhase is a phase that a start can select.
type FormPhase struct {
	Name     string   `json:"name"`
	Needs    []string `json:"needs"`
	Personas []string `json:"personas"`
	// Approve: people have to approve it.
	Approve bool `json:"approve"`
}

// Form is what a start takes of a version of a registered team: the one whose digest begins so, or
// the newest.
func (t Teams) Form(ctx context.Context, name, digest string) (TeamForm, error) {
	_, version, crew, err := t.version(ctx, name, digest)
	form := TeamForm{Team: name, Version: version.Digest, Description: crew.Description, Phases: []FormPhase{}}
	for _, p := range crew.Phases {
		form.Phases = append(form.Phases, FormPhase{p.Name, append([]string{}, p.Needs...), append([]string{}, p.Personas...), p.Approve.Wanted()})
	}
	form.Schema = startSchema(crew)
	return form, err
}

// startSchema is the JSON Schema of a start's fields.
func startSchema(t spec.Team) map[string]any {
	text := func(most int, what string) map[string]any {
		return map[string]any{"type": "string", "minLength": 1, "maxLength": most, "description": what}
	}
	phase := func(what string) map[string]any {
		return map[string]any{"type": "string", "enum": t.PhaseNames(), "description": what}
	}
	phases := func(what string) map[string]any {
		return map[string]any{"type": "array", "uniqueItems": true, "items": map[string]any{"type": "string", "enum": t.PhaseNames()}, "description": what}
	}
	pairs := func(key string, value map[string]any, what string) map[string]any {
		return map[string]any{"type": "object", "propertyNames": map[string]any{"pattern": key}, "additionalProperties": value, "description": what}
	}
	labels := pairs(session.LabelPattern, text(session.MaxLabelValue, "the label's value"), "labels by which the session is found, by key")
	labels["maxProperties"] = session.MaxLabels
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": false, "required": []string{"requirement"},
		"properties": map[string]any{
			"session":     text(128, "the session's id; left out: one is chosen"),
			"requirement": text(MaxRequirement, "what the team should do"),
			"only":        phases("the phases to run; left out: all"),
			"from":        phase("run this phase and all that depend on it"),
			"until":       phase("run this phase and all that it depends on"),
			"pause_after": phases("phases after which the session pauses until it is resumed"),
			"decisions":   pairs(spec.DecisionPattern, text(session.MaxDecisionValue, "the decision"), "decisions that are made already, by name"),
			"labels":      labels,
		},
	}
}
