package hiveimport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Folder is the directory in the tree that holds what the phases left.
const Folder = "maestro-hive"

// aliases are the names that phases had, and what they are called here.
var aliases = map[string]string{
	"development": "implementation", "coding": "implementation",
	"qa": "testing", "verification": "testing",
	"deploy": "deployment", "release": "deployment",
	"analysis": "requirements", "specification": "requirements",
	"architecture": "design",
}

// Work is what a checkpoint is to a team.
type Work struct {
	// Session is the workflow's id as a session's; empty if nothing of it can be.
	Session     string
	Requirement string
	// Phases are those that are done, in the order in which they were.
	Phases []Phase
	// Notes says, a sentence each, what is not here as it was there.
	Notes []string
}

// Phase is a completed phase.
type Phase struct {
	// Name is the team's; From is what Maestro Hive called it.
	Name, From string
	// Path and Content are the file that holds the phase's outputs.
	Path      string
	Content   []byte
	Decisions map[string]string
	// CompletedAt is zero where it is not known.
	CompletedAt time.Time
}

// Convert says what the checkpoint is to a team, which must be resolved. Phases
// that the team does not have are [Faults]: all of them.
func (c Checkpoint) Convert(t spec.Team) (Work, error) {
	w := Work{Requirement: c.Requirement()}
	w.Session = usable(c.ID(), 128)
	w.renamed("session", c.ID(), w.Session)
	var faults Faults
	from := map[string]string{}
	for _, name := range c.Done() {
		field := "workflow_context.phase_results." + clip(name)
		phase, ok := phaseOf(t, name)
		switch {
		case !ok:
			faults = append(faults, Fault{field, missingPhase(t, name)})
			continue
		case from[phase] != "":
			faults = append(faults, Fault{field, fmt.Sprintf("is phase %s of team %s, and so is %q; keep one of them in the file", phase,
				t.Name, from[phase])})
			continue
		}
		from[phase] = name
		w.renamed("phase", name, phase)
		p, err := w.phase(phase, name, c.Context.Results[name])
		if err != nil {
			faults = append(faults, Fault{field + ".outputs", err.Error()})
		}
		w.Phases = append(w.Phases, p)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Context.Results)) {
		if r := c.Context.Results[name]; r.Status != completed {
			w.note("phase %q is not imported: its status is %q", clip(name), clip(r.Status))
		}
	}
	if len(faults) > 0 {
		return w, faults
	}
	return w, w.checkDecisions()
}

// phaseOf finds the team's phase of a name, or of what the name stands for.
func phaseOf(t spec.Team, name string) (string, bool) {
	for _, candidate := range []string{name, strings.ToLower(strings.TrimSpace(name))} {
		for _, n := range []string{candidate, aliases[candidate]} {
			if _, ok := t.Phase(n); ok && n != "" {
				return n, true
			}
		}
	}
	return "", false
}

func missingPhase(t spec.Team, name string) string {
	known := t.PhaseNames()
	what := fmt.Sprintf("team %s has no phase %q", t.Name, clip(name))
	if alias := aliases[strings.ToLower(name)]; alias != "" {
		what += fmt.Sprintf(" (or %s)", alias)
	}
	return fmt.Sprintf("%s%s; it has %s: add the phase to the team file, or take it out of the checkpoint",
		what, textfmt.DidYouMean(name, known), strings.Join(known, ", "))
}

// phase turns what a phase left into a file and decisions.
func (w *Work) phase(name, from string, r Result) (Phase, error) {
	p := Phase{
		Name: name, From: from, Path: Folder + "/" + name + ".json", Decisions: map[string]string{},
		CompletedAt: at(r.CompletedAt),
	}
	var buf bytes.Buffer
	if len(r.Outputs) == 0 {
		r.Outputs = []byte("{}")
	}
	if err := json.Indent(&buf, r.Outputs, "", "  "); err != nil {
		return p, err
	}
	buf.WriteByte('\n')
	p.Content = buf.Bytes()
	var outputs struct {
		Decisions map[string]json.RawMessage `json:"decisions"`
	}
	if err := json.Unmarshal(r.Outputs, &outputs); err != nil {
		w.note("the decisions of phase %s are not a JSON object; they are only in %s", name, p.Path)
		return p, nil
	}
	for _, key := range slices.Sorted(maps.Keys(outputs.Decisions)) {
		value := valueOf(outputs.Decisions[key])
		decision := usable(key, 64)
		if _, taken := p.Decisions[decision]; decision == "" || taken || len(value) > session.MaxDecisionValue {
			w.note("decision %q of phase %s cannot be imported as a decision; it is only in %s", clip(key), name, p.Path)
			continue
		}
		w.renamed("decision", key, decision)
		p.Decisions[decision] = value
	}
	return p, nil
}

// valueOf is a decision's value: a text as it is, anything else as JSON.
func valueOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil && len(raw) > 0 && raw[0] == '"' {
		return text
	}
	var buf bytes.Buffer
	if json.Compact(&buf, raw) != nil {
		return string(raw)
	}
	return buf.String()
}

// checkDecisions refuses more decisions than a session can carry.
func (w *Work) checkDecisions() error {
	all := map[string]string{}
	for _, p := range w.Phases {
		maps.Copy(all, p.Decisions)
	}
	if err := session.CheckDecisions(all); err != nil {
		return Faults{{"workflow_context.phase_results", "decisions: " + err.Error()}}
	}
	return nil
}

// unsafe is what neither sessions nor decisions can have in their names.
var unsafe = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// usable makes an id one that a file name can carry; empty if nothing is left.
func usable(id string, most int) string {
	out := strings.TrimLeft(unsafe.ReplaceAllString(id, "-"), "-._")
	return strings.TrimRight(out[:min(len(out), most)], "-.")
}

func (w *Work) renamed(what, from, to string) {
	if to != "" && from != to {
		w.note("%s %q is imported as %s", what, clip(from), to)
	}
}

func (w *Work) note(format string, args ...any) {
	w.Notes = append(w.Notes, fmt.Sprintf(format, args...))
}
