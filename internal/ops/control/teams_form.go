package control

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// TeamForm is the input for a start of a session of a team.
type TeamForm struct {
	Team        string      `json:"team"`
	Version     spec.Digest `json:"version"`
	Description string      `json:"description"`
	// Phases, in the file's order.
	Phases []FormPhase `json:"phases"`
	// Schema is the JSON Schema of the fields of a start: those of the body of POST /sessions
	// besides the team.
	Schema FormSchema `json:"schema"`
}

// FormPhase is a phase that a start can select.
type FormPhase struct {
	Name  string   `json:"name"`
	Needs []string `json:"needs"`
	// Personas are those who work in it; a phase that delivers has none.
	Personas []string `json:"personas"`
	// Approve: the phase needs approval.
	Approve bool `json:"approve"`
}

// FormSchema is a JSON Schema of the fields of a form.
type FormSchema struct {
	Dialect              string               `json:"$schema"`
	Type                 string               `json:"type"`
	AdditionalProperties bool                 `json:"additionalProperties"`
	Required             []string             `json:"required"`
	Properties           map[string]FormField `json:"properties"`
}

// FormField is the JSON Schema of a field: a text, a list of texts, or texts by key.
type FormField struct {
	Type        string   `json:"type,omitempty"`
	Description string   `json:"description,omitempty"`
	Enum        []string `json:"enum,omitempty"`
	Pattern     string   `json:"pattern,omitempty"`
	MinLength   int      `json:"minLength,omitempty"`
	MaxLength   int      `json:"maxLength,omitempty"`
	// Format is [ManifestFormat] for the digest of uploaded files.
	Format      string     `json:"format,omitempty"`
	UniqueItems bool       `json:"uniqueItems,omitempty"`
	Items       *FormField `json:"items,omitempty"`
	// PropertyNames are the keys, and AdditionalProperties the texts of a field with keys.
	PropertyNames        *FormField `json:"propertyNames,omitempty"`
	AdditionalProperties *FormField `json:"additionalProperties,omitempty"`
	MaxProperties        int        `json:"maxProperties,omitempty"`
}

// ManifestFormat is the format of a text that is the digest of uploaded files.
const ManifestFormat = "manifest"

// Form is the input for a start of a session of a team.
func (t Teams) Form(ctx context.Context, in TeamInput) (TeamForm, error) {
	crew, err := Starts(t).team(ctx, in)
	if err == nil {
		err = access.Check(ctx, access.View, crew.Name)
	}
	if err != nil {
		return TeamForm{}, err
	}
	data, err := json.Marshal(crew)
	form := TeamForm{Team: crew.Name, Version: cas.DigestOf(data), Description: crew.Description, Phases: []FormPhase{}}
	for _, p := range crew.Written().Phases {
		form.Phases = append(form.Phases, FormPhase{p.Name, emptyNotNull(p.Needs), emptyNotNull(p.Personas), p.Approve.Wanted()})
	}
	form.Schema = startSchema(crew, t.Directories)
	return form, err
}

// startSchema is the JSON Schema of a start's fields.
func startSchema(t spec.Team, directories []Directory) FormSchema {
	phases := FormField{Type: "string", Enum: t.PhaseNames()}
	working := slices.DeleteFunc(t.PhaseNames(), func(name string) bool { p, _ := t.Phase(name); return p.Deliver != nil })
	files := FormField{Type: "string", Format: ManifestFormat, Pattern: "^[0-9a-f]{64}$"}
	text := func(most int, what string) FormField {
		return FormField{Type: "string", MinLength: 1, MaxLength: most, Description: what}
	}
	described := func(f FormField, what string) FormField {
		f.Description = what
		return f
	}
	list := func(what string) FormField {
		return FormField{Type: "array", UniqueItems: true, Items: &phases, Description: what}
	}
	byKey := func(keys, values FormField, what string) FormField {
		return FormField{Type: "object", PropertyNames: &keys, AdditionalProperties: &values, Description: what}
	}
	labels := byKey(FormField{Pattern: session.LabelPattern}, text(session.MaxLabelValue, "the label's value"),
		"labels by which the session is found")
	labels.MaxProperties = session.MaxLabels
	fields := map[string]FormField{
		"session":     text(128, "the session's id; left out: one is chosen"),
		"requirement": text(MaxRequirement, "what the team should do"),
		"workspace":   described(files, "the files to start from: the manifest that POST /workspaces answers with"),
		"only":        list("the phases to run; left out: all"),
		"from":        described(phases, "run this phase and all that depend on it"),
		"until":       described(phases, "run this phase and all that it depends on"),
		"pause_after": list("phases after which the session pauses until it is resumed"),
		"supplied":    byKey(FormField{Enum: working}, files, "manifests of files that stand for the work of phases, by phase"),
		"decisions": byKey(FormField{Pattern: spec.DecisionPattern}, text(session.MaxDecisionValue, "the decision"),
			"decisions that are made already"),
		"labels": labels,
	}
	if len(directories) > 0 {
		names := FormField{Type: "string", Description: "a directory of the server's host whose files it starts from instead"}
		for _, d := range directories {
			names.Enum = append(names.Enum, d.Name)
		}
		fields["directory"] = names
	}
	return FormSchema{
		Dialect: "https://json-schema.org/draft/2020-12/schema", Type: "object", Required: []string{"requirement"},
		Properties: fields,
	}
}
