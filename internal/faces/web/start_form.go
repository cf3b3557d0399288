package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

// startForm is what a person has entered into the form of a team.
type startForm struct {
	// Team names a registered one, or a version of it; File is the text of a team file instead.
	Team, File string
	// Stored are the files that the form has brought, by their place: a field, or FIELD/KEY.
	Stored map[string]storedFiles
	values url.Values
}

// storedFiles are files in the store: their digest, and what a person is told of them. The form carries both as one text.
type storedFiles struct{ Digest, Note string }

// The names of inputs for files, by place, and of those that say which were stored.
const (
	uploadPrefix = "upload:"
	storedPrefix = "stored:"
)

// startFormOf reads a form, or an address that fills one in.
func startFormOf(r *http.Request) startForm {
	_ = r.FormValue("") // it parses the form; what cannot be read is not there
	f := startForm{
		Team: strings.TrimSpace(r.FormValue("team")), File: unixLines(r.FormValue("file")),
		Stored: map[string]storedFiles{}, values: r.Form,
	}
	for name, values := range r.Form {
		if place, ok := strings.CutPrefix(name, storedPrefix); ok && values[0] != "" {
			digest, note, _ := strings.Cut(values[0], " ")
			f.Stored[place] = storedFiles{digest, note}
		}
	}
	if strings.TrimSpace(f.File) != "" {
		f.Team = ""
	}
	return f
}

// team is the team that the form names.
func (f startForm) team() control.TeamInput {
	if f.Team == "" {
		return control.TeamInput{File: f.File}
	}
	return control.TeamInput{Name: f.Team}
}

// text is what was entered into a field.
func (f startForm) text(name string) string {
	return strings.TrimSpace(unixLines(f.values.Get(name)))
}

// input is the session that the form describes: the document of its schema.
func (f startForm) input(schema control.FormSchema) (in control.NewSession, err error) {
	doc := map[string]any{}
	for name, field := range schema.Properties {
		switch kindOf(field) {
		case "files":
			if stored := f.Stored[name]; stored.Digest != "" {
				doc[name] = stored.Digest
			}
		case "supplies":
			if files := f.supplied(name); len(files) > 0 {
				doc[name] = files
			}
		case "checks":
			if chosen := f.values[name]; len(chosen) > 0 {
				doc[name] = chosen
			}
		case "lines":
			pairs, err := pairs(f.text(name))
			if err != nil {
				return in, &fieldError{name, err}
			}
			doc[name] = pairs
		default:
			doc[name] = f.text(name)
		}
	}
	data, err := json.Marshal(doc)
	if err == nil {
		err = json.Unmarshal(data, &in)
	}
	in.Team = f.team()
	return in, err
}

// supplied are the stored files of a field with keys.
func (f startForm) supplied(name string) map[string]string {
	files := map[string]string{}
	for place, stored := range f.Stored {
		if key, ok := strings.CutPrefix(place, name+"/"); ok {
			files[key] = stored.Digest
		}
	}
	return files
}

// pairs are the lines of a text, each NAME=VALUE; nil: there are none.
func pairs(text string) (map[string]string, error) {
	var all map[string]string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		switch _, twice := all[name]; {
		case !ok || name == "":
			return nil, fmt.Errorf("%q is not of the form NAME=VALUE", textfmt.Shorten(line, 80))
		case twice:
			return nil, fmt.Errorf("%s is given twice", textfmt.Shorten(name, 80))
		case all == nil:
			all = map[string]string{}
		}
		all[name] = strings.TrimSpace(value)
	}
	return all, nil
}

// formField is a field of a form, as its schema describes it.
type formField struct {
	Name, Label, Hint string
	// Kind is text, area, lines, choice, checks, files or supplies.
	Kind     string
	Required bool
	Most     int
	Value    string
	Options  []formOption
	Places   []filePlace
	Error    string
}

// formOption is one of the values of a field.
type formOption struct {
	Value, Note string
	On          bool
}

// filePlace is an input for files.
type filePlace struct {
	Place, ID, Label string
	Stored           storedFiles
}

// labelOf names the fields for people. They are shown in the order of these lists; those that a
// schema has besides come last.
var (
	labelOf = map[string]string{
		"requirement": "What is to be done", "directory": "Directory to start from", "workspace": "Files to start from",
		"labels":    "Labels",
		"decisions": "Decisions", "only": "Run only", "pause_after": "Pause after", "from": "From phase", "until": "Until phase",
		"supplied": "Work that exists already", "session": "Id of the session",
	}
	mainFields  = []string{"requirement", "directory", "workspace", "decisions", "labels"}
	phaseFields = []string{"only", "pause_after", "from", "until", "supplied"}
)

// kindOf is how a field is entered.
func kindOf(f control.FormField) string {
	switch {
	case f.Format == control.ManifestFormat:
		return "files"
	case f.Type == "array":
		return "checks"
	case f.Type == "object" && f.AdditionalProperties != nil && f.AdditionalProperties.Format == control.ManifestFormat:
		return "supplies"
	case f.Type == "object":
		return "lines"
	case len(f.Enum) > 0:
		return "choice"
	case f.MaxLength > 1000:
		return "area"
	}
	return "text"
}

// layOut makes the fields of the page of the form's schema.
func (p *startPage) layOut() {
	properties := p.Form.Schema.Properties
	names := slices.Sorted(maps.Keys(properties))
	p.Main, p.Phases = p.fields(mainFields), p.fields(phaseFields)
	p.More = p.fields(slices.DeleteFunc(names, func(name string) bool {
		return slices.Contains(mainFields, name) || slices.Contains(phaseFields, name)
	}))
}

// fields are those of some names that the schema has.
func (p *startPage) fields(names []string) (all []formField) {
	for _, name := range names {
		if schema, ok := p.Form.Schema.Properties[name]; ok {
			all = append(all, p.field(name, schema))
		}
	}
	return all
}

func (p *startPage) field(name string, schema control.FormField) formField {
	f := formField{
		Name: name, Label: labelOf[name], Hint: schema.Description, Kind: kindOf(schema),
		Required: slices.Contains(p.Form.Schema.Required, name),
		Most:     schema.MaxLength, Value: p.text(name),
	}
	if name == p.Wrong {
		f.Error = p.Problem
	}
	if f.Label == "" {
		f.Label = strings.ReplaceAll(name, "_", " ")
	}
	place := func(place, label string) filePlace {
		return filePlace{Place: place, ID: "upload-" + strings.ReplaceAll(place, "/", "-"), Label: label, Stored: p.Stored[place]}
	}
	options := schema.Enum
	switch f.Kind {
	case "checks":
		options = schema.Items.Enum
	case "files":
		f.Places = []filePlace{place(name, f.Label)}
	case "supplies":
		for _, key := range schema.PropertyNames.Enum {
			f.Places = append(f.Places, place(name+"/"+key, key))
		}
	}
	for _, value := range options {
		f.Options = append(f.Options, formOption{value, p.noteOn(name, value), slices.Contains(p.values[name], value)})
	}
	return f
}

// noteOn says what a phase is.
func (p *startPage) noteOn(field, value string) string {
	i := slices.IndexFunc(p.Form.Phases, func(phase control.FormPhase) bool { return phase.Name == value })
	if field != "only" || i < 0 {
		return ""
	}
	note := cmp.Or(strings.Join(p.Form.Phases[i].Personas, ", "), "delivers the work")
	if p.Form.Phases[i].Approve {
		note += "; needs approval"
	}
	return note
}

// Open reports whether something was entered into fields that are folded, or is wrong there.
func (p *startPage) Open(fields []formField) bool {
	return slices.ContainsFunc(fields, func(f formField) bool {
		return f.Value != "" || f.Error != "" || slices.ContainsFunc(f.Options, func(o formOption) bool { return o.On }) ||
			slices.ContainsFunc(f.Places, func(f filePlace) bool { return f.Stored.Digest != "" })
	})
}

// Label is the label of the field that is wrong.
func (p *startPage) Label() string { return labelOf[p.Wrong] }
