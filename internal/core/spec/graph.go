package spec

import (
	"slices"
	"strings"
)

// Phase returns the phase of that name.
func (t Team) Phase(name string) (Phase, bool) {
	for i := range t.Phases {
		if t.Phases[i].Name == name {
			return t.Phases[i], true
		}
	}
	return Phase{}, false
}

// InOrder returns the phases so that each comes after all that it needs, in the file's order where
// the graph permits several orders. The team must be resolved. If the graph has a cycle, the phases
// in it and after it are left out. The result shares the team's memory: it must not be changed.
func (t Team) InOrder() []*Phase {
	var order []*Phase
	done := make(map[string]bool, len(t.Phases))
	first := 0 // all phases before it are done
	for len(order) < len(t.Phases) {
		for first < len(t.Phases) && done[t.Phases[first].Name] {
			first++
		}
		i := slices.IndexFunc(t.Phases[first:], func(p Phase) bool {
			return !done[p.Name] && !slices.ContainsFunc(p.Needs, func(n string) bool { return !done[n] })
		})
		if i < 0 {
			return order
		}
		next := &t.Phases[first+i]
		done[next.Name] = true
		order = append(order, next)
	}
	return order
}

// Topological returns the names of the phases in their order.
func (t Team) Topological() []string {
	var names []string
	for _, p := range t.InOrder() {
		names = append(names, p.Name)
	}
	return names
}

// Depths says how deep each phase is in the graph: 0 if it needs none, else one more than the deepest that it needs.
// Needs that name no phase do not count. The phases of a cycle are deeper than all others.
func Depths(phases []Phase) map[string]int {
	depth := map[string]int{}
	for _, p := range phases {
		depth[p.Name] = 0
	}
	for range phases {
		for _, p := range phases {
			for _, need := range p.Needs {
				if d, known := depth[need]; known && need != p.Name {
					depth[p.Name] = min(max(depth[p.Name], d+1), len(phases))
				}
			}
		}
	}
	return depth
}

// Ancestors returns every phase that the named one depends on, directly or not, in topological
// order.
func (t Team) Ancestors(name string) []string {
	above := map[string]bool{name: true}
	var out []string
	for _, p := range slices.Backward(t.InOrder()) {
		if !above[p.Name] {
			continue
		}
		for _, need := range p.Needs {
			above[need] = true
		}
		if p.Name != name {
			out = append(out, p.Name)
		}
	}
	slices.Reverse(out)
	return out
}

// Assignments lists every assignment of the team in merge order.
func (t Team) Assignments() []AssignmentID {
	var out []AssignmentID
	for _, p := range t.InOrder() {
		for _, persona := range p.Personas {
			out = append(out, AssignmentID{Phase: p.Name, Persona: persona})
		}
	}
	return out
}

// Contract is what one assignment must deliver for an attempt to succeed.
type Contract struct {
	Produces []string
	Checks   []string
}

// Contract returns the requirements for an attempt of the assignment: the persona's own and, if it
// works alone in its phase, the phase's too, because then its tree is the merged tree.
func (t Team) Contract(id AssignmentID) Contract {
	persona := t.Personas[id.Persona]
	phase, _ := t.Phase(id.Phase)
	c := Contract{Produces: slices.Clone(persona.Produces), Checks: slices.Clone(persona.Checks)}
	if phase.Solo() {
		c.Produces = appendNew(c.Produces, phase.Produces)
		c.Checks = appendNew(c.Checks, phase.Checks)
	}
	return c
}

// Outputs are the patterns of files that an assignment, or its phase, has to produce: such files
// are collected even if they are ignored otherwise.
func (t Team) Outputs(id AssignmentID) []string {
	phase, _ := t.Phase(id.Phase)
	return appendNew(slices.Clone(t.Personas[id.Persona].Produces), phase.Produces)
}

// Solo reports whether one persona works in the phase alone, so that its attempts are held to the
// phase's requirements and there is nothing to merge.
func (p Phase) Solo() bool { return len(p.Personas) == 1 }

// AgentNames lists the agents that the team uses, sorted.
func (t Team) AgentNames() []string {
	var out []string
	for _, id := range t.Assignments() {
		out = append(out, t.Personas[id.Persona].Agent)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// CheckUse is a check and the agent on whose queue it runs.
type CheckUse struct{ Check, Agent string }

// CheckUses lists the checks that the team uses, each with the agent whose workers need it.
func (t Team) CheckUses() []CheckUse {
	var out []CheckUse
	for _, p := range t.Phases {
		for _, check := range p.Checks {
			out = append(out, CheckUse{check, t.Personas[p.Integrator].Agent})
		}
		for _, name := range p.Personas {
			for _, check := range t.Personas[name].Checks {
				out = append(out, CheckUse{check, t.Personas[name].Agent})
			}
		}
	}
	slices.SortFunc(out, func(a, b CheckUse) int {
		if c := strings.Compare(a.Check, b.Check); c != 0 {
			return c
		}
		return strings.Compare(a.Agent, b.Agent)
	})
	return slices.Compact(out)
}

func appendNew(list, more []string) []string {
	for _, s := range more {
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}
