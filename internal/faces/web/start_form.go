package web

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/spec"
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

// suppliedPrefix is what the places of files for phases begin with.
const suppliedPrefix = "supplied/"

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

// input is the session that the form describes.
func (f startForm) input() (in control.NewSession, err error) {
	in = control.NewSession{
		Team: f.team(), Session: f.text("session"), Requirement: f.text("requirement"), Directory: f.text("directory"),
		Workspace: spec.Digest(f.Stored["workspace"].Digest),
		PhaseSelection: control.PhaseSelection{
			Only: f.values["only"], From: f.text("from"), Until: f.text("until"), PauseAfter: f.values["pause_after"],
		},
		Supplied: map[string]spec.Digest{},
	}
	for place, stored := range f.Stored {
		if phase, ok := strings.CutPrefix(place, suppliedPrefix); ok {
			in.Supplied[phase] = spec.Digest(stored.Digest)
		}
	}
	if in.Decisions, err = pairs(f.text("decisions")); err != nil {
		return in, &fieldError{"decisions", err}
	}
	if in.Labels, err = pairs(f.text("labels")); err != nil {
		return in, &fieldError{"labels", err}
	}
	return in, nil
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

// formField is a field of a form.
type formField struct {
	Name, Label, Hint string
	// Kind is text, area, lines, choice, checks, files or supplies.
	Kind     string
	Required bool
	Most     int
	// Value is what was entered, or the first of the Chosen options.
	Value   string
	Chosen  []string
	Options []formOption
	Places  []filePlace
	Error   string
}

// formOption is one of the values of a field.
type formOption struct{ Value, Note string }

// On reports whether an option is chosen.
func (f formField) On(o formOption) bool { return slices.Contains(f.Chosen, o.Value) }

// filePlace is an input for files.
type filePlace struct {
	Place, Label string
	Stored       storedFiles
}

// layOut makes the fields of the page, in the order in which they are shown.
func (p *startPage) layOut(directories []control.Directory) {
	var hosts, phases, noted []formOption
	for _, d := range directories {
		hosts = append(hosts, formOption{Value: d.Name})
	}
	var works []filePlace
	for _, phase := range p.Crew.Phases {
		phases, noted = append(phases, formOption{Value: phase.Name}), append(noted, formOption{phase.Name, noteOn(phase)})
		if phase.Deliver == nil { // a delivery has no files
			works = append(works, filePlace{Place: suppliedPrefix + phase.Name, Label: phase.Name})
		}
	}
	const workspace = "Files to start from"
	p.Main = []formField{
		{Name: "requirement", Label: "What is to be done", Kind: "area", Required: true, Most: control.MaxRequirement},
		{
			Name: "directory", Label: "Directory to start from", Kind: "choice", Options: hosts,
			Hint: "a directory of the server's host whose files it starts from instead",
		},
		{Name: "workspace", Label: workspace, Kind: "files", Places: []filePlace{{Place: "workspace", Label: workspace}}},
		{Name: "decisions", Label: "Decisions", Kind: "lines", Hint: "decisions that are made already"},
		{Name: "labels", Label: "Labels", Kind: "lines", Hint: "labels by which the session is found"},
	}
	if len(hosts) == 0 {
		p.Main = slices.Delete(p.Main, 1, 2)
	}
	p.Phases = []formField{
		{Name: "only", Label: "Run only", Kind: "checks", Options: noted, Hint: "the phases to run; left out: all"},
		{
			Name: "pause_after", Label: "Pause after", Kind: "checks", Options: phases,
			Hint: "phases after which the session pauses until it is resumed",
		},
		{Name: "from", Label: "From phase", Kind: "choice", Options: phases, Hint: "run this phase and all that depend on it"},
		{Name: "until", Label: "Until phase", Kind: "choice", Options: phases, Hint: "run this phase and all that it depends on"},
		{Name: "supplied", Label: "Work that exists already", Kind: "supplies", Places: works},
	}
	p.More = []formField{{
		Name: "session", Label: "Id of the session", Kind: "text", Most: 128,
		Hint: "the session's id; left out: one is chosen",
	}}
	for _, fields := range [][]formField{p.Main, p.Phases, p.More} {
		for i := range fields {
			p.fill(&fields[i])
		}
	}
}

// fill adds to a field what was entered, and what is wrong with it.
func (p *startPage) fill(f *formField) {
	f.Value, f.Chosen = p.text(f.Name), p.values[f.Name]
	for i := range f.Places {
		f.Places[i].Stored = p.Stored[f.Places[i].Place]
	}
	if f.Name == p.problemAt {
		f.Error, p.Wrong = p.Problem, f
	}
}

// noteOn says what a phase is.
func noteOn(phase spec.Phase) string {
	note := cmp.Or(strings.Join(phase.Personas, ", "), "delivers the work")
	if phase.Approve.Wanted() {
		note += "; needs approval"
	}
	return note
}

// Open reports whether something was entered into fields that are folded, or is wrong there.
func (p *startPage) Open(fields []formField) bool {
	return slices.ContainsFunc(fields, func(f formField) bool {
		return f.Value != "" || f.Error != "" || slices.ContainsFunc(f.Places, func(f filePlace) bool { return f.Stored.Digest != "" })
	})
}
