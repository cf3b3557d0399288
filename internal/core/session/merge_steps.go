package session

import (
	"maps"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Step is one delta of a merge, with the steps that its author started from. Steps are listed so
// that each comes after the steps in On.
type Step struct {
	By spec.AssignmentID
	Work
	// On holds the indexes of the steps whose results were in its input.
	On map[int]bool
}

// Conflict is a path or a decision for which two assignments, without knowledge of each other, have
// different results.
type Conflict struct {
	// Path is set for a file, Decision for a decision.
	Path     string              `json:"path,omitempty"`
	Decision string              `json:"decision,omitempty"`
	Between  []spec.AssignmentID `json:"between"`
	// More counts the conflicts that a list leaves out after this one.
	More int `json:"more,omitempty"`
}

// String describes what conflicts, and between whom.
func (c Conflict) String() string {
	var who []string
	for _, id := range c.Between {
		who = append(who, id.String())
	}
	return c.what() + " (" + strings.Join(who, ", ") + ")"
}

func (c Conflict) what() string {
	if c.Path == "" {
		return "decision " + c.Decision
	}
	return c.Path
}

// Steps lists the work of the named phases in done, in merge order. Each step has the steps that
// its author started from: all steps of the phases that its phase needs, directly or not; the steps
// before it in a sequence; and, for an integrating step, those of its whole phase. Assignments
// without work in done are left out. The team must be resolved.
func Steps(t spec.Team, phases []string, done map[spec.AssignmentID]CheckpointAssignment) []Step {
	var steps []Step
	of := map[string][]int{}           // a phase's steps
	known := map[string]map[int]bool{} // the steps that a phase was made on
	for _, p := range t.InOrder() {
		name := p.Name
		above := map[int]bool{}
		for _, need := range p.Needs {
			maps.Copy(above, known[need])
			for _, i := range of[need] {
				above[i] = true
			}
		}
		known[name] = above
		if !slices.Contains(phases, name) {
			continue
		}
		add := func(by spec.AssignmentID, w Work, on map[int]bool) {
			of[name] = append(of[name], len(steps))
			steps = append(steps, Step{By: by, Work: w, On: on})
		}
		seen := func() map[int]bool {
			on := maps.Clone(above)
			for _, i := range of[name] {
				on[i] = true
			}
			return on
		}
		for _, persona := range p.Personas {
			id := spec.AssignmentID{Phase: name, Persona: persona}
			if a, ok := done[id]; ok {
				on := above
				if p.Order == spec.OrderSequence {
					on = seen()
				}
				add(id, a.Work, on)
			}
		}
		// Changes of an earlier integrator come first, if the team has another one now.
		for _, last := range []bool{false, true} {
			for _, persona := range p.Personas {
				id := spec.AssignmentID{Phase: name, Persona: persona}
				if (persona == p.Integrator) != last {
					continue
				}
				for _, w := range done[id].Integrated {
					add(id, w, seen())
				}
			}
		}
	}
	return steps
}

// Unsettled reports whether the steps i and j were made without knowledge of each other, and no
// later step was made with knowledge of both. Then a conflict between them is not resolved.
func Unsettled(steps []Step, i, j int) bool {
	if steps[j].On[i] || steps[i].On[j] {
		return false
	}
	for _, s := range steps[max(i, j)+1:] {
		if s.On[i] && s.On[j] {
			return false
		}
	}
	return true
}

// MergeDecisions merges the steps' decisions, in order, with those that were given before the
// session, and lists the conflicts of unsettled steps. The later step's value is used.
func MergeDecisions(given map[string]string, steps []Step) (map[string]string, []Conflict) {
	merged := map[string]string{}
	maps.Copy(merged, given)
	var conflicts []Conflict
	for j, s := range steps {
		for _, name := range slices.Sorted(maps.Keys(s.Decisions)) {
			for i, before := range steps[:j] {
				if v, ok := before.Decisions[name]; ok && v != s.Decisions[name] && Unsettled(steps, i, j) {
					conflicts = append(conflicts, Conflict{Decision: name, Between: []spec.AssignmentID{before.By, s.By}})
				}
			}
			merged[name] = s.Decisions[name]
		}
	}
	return merged, conflicts
}
