package spec

import (
	"maps"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

func (v *validator) phases() {
	folded := map[string]string{}
	for i, p := range v.team.Phases {
		path := ItemPath("$.phases", i)
		v.phaseName(path+".name", p.Name, folded)
		v.crew(path, p)
		v.ranges(path+".produces", p.Produces)
		v.ranges(path+".protected", p.Protected)
		if p.Deliver != nil {
			v.delivery(path, p)
		}
	}
	before := len(v.problems)
	v.needs()
	v.sendsBack(len(v.problems) == before)
}

func (v *validator) phaseName(path, name string, folded map[string]string) {
	other, taken := folded[strings.ToLower(name)]
	folded[strings.ToLower(name)] = name
	switch {
	case strings.EqualFold(name, ReservedPhase):
		v.add(path, "%q is the name of the checkpoint before the first phase; choose another", name)
	case taken && other == name:
		v.add(path, "%q is the name of an earlier phase, too; rename one", name)
	case taken:
		v.add(path, "%q differs from the phase %q only by case, so their file names may be the same; rename one", name, other)
	}
}

// crew checks the personas of a phase.
func (v *validator) crew(path string, p Phase) {
	known := slices.Sorted(maps.Keys(v.team.Personas))
	for i, name := range p.Personas {
		if _, ok := v.team.Personas[name]; !ok && len(known) > 0 {
			v.add(ItemPath(path+".personas", i), "unknown persona %q%s", textfmt.Shorten(name, 80),
				textfmt.Suggest(name, known, "the team has"))
		}
	}
	if p.Integrator != "" && len(p.Personas) > 0 && !slices.Contains(p.Personas, p.Integrator) {
		v.add(path+".integrator", "%q does not work in this phase%s", textfmt.Shorten(p.Integrator, 80),
			textfmt.Suggest(p.Integrator, p.Personas, "choose one of"))
	}
}

// needs checks the edges of the graph. If a phase has no name, edges to unknown phases probably
// mean that phase, and are not reported.
func (v *validator) needs() {
	var known []string
	nameless := false
	for _, p := range v.team.Phases {
		known = append(known, p.Name)
		nameless = nameless || p.Name == ""
	}
	for i, p := range v.team.Phases {
		path := ItemPath("$.phases", i) + ".needs"
		if p.Deliver != nil && len(p.Needs) == 0 && (p.Needs != nil || i == 0) {
			v.add(path, "names no phase, so %q has nothing to deliver; name those whose work it delivers", textfmt.Shorten(p.Name, 80))
		}
		for j, need := range p.Needs {
			switch {
			case need == p.Name && need != "":
				v.add(ItemPath(path, j), "%q cannot need itself; leave it out", textfmt.Shorten(need, 80))
			case !slices.Contains(known, need) && !nameless:
				others := slices.DeleteFunc(slices.Clone(known), func(n string) bool { return n == p.Name })
				v.add(ItemPath(path, j), "unknown phase %q%s", textfmt.Shorten(need, 80), textfmt.Suggest(need, others, "the team has"))
			}
		}
	}
	v.cycles()
}

// sendsBack checks to which phases work is sent back, by personas or by deliveries. sound: the graph has no problems from
// which others follow.
func (v *validator) sendsBack(sound bool) {
	graph := v.team.Resolved()
	for i, p := range v.team.Phases {
		path := ItemPath("$.phases", i)
		switch {
		case p.Deliver != nil && (p.Deliver.Fix != "" || sound):
			v.back(graph, p.Name, path+".deliver", ".fix", graph.Phases[i].Deliver.Fix, sound)
		case p.Deliver == nil && p.SendsBack != nil:
			v.back(graph, p.Name, path+".sends_back", ".to", p.SendsBack.To, sound)
		}
	}
}

// back checks that a phase can send the work of another one back: only work of phases that it depends on can be repeated for
// it.
func (v *validator) back(graph Team, phase, path, field, to string, sound bool) {
	above := slices.DeleteFunc(graph.Ancestors(phase), func(name string) bool {
		p, _ := graph.Phase(name)
		return p.Deliver != nil
	})
	target, known := v.team.Phase(to)
	switch {
	case !known && slices.ContainsFunc(v.team.Phases, func(p Phase) bool { return p.Name == "" }):
		// it probably means the phase without a name
	case !known:
		v.add(path+field, "unknown phase %q%s", textfmt.Shorten(to, 80), textfmt.Suggest(to, above, "choose one of"))
	case target.Deliver != nil:
		v.add(path+field, "%q delivers the work of other phases, so there is none to send back to it%s", textfmt.Shorten(to, 80),
			textfmt.Suggest("", above, "choose one of"))
	case !sound || slices.Contains(above, to):
	case len(above) == 0:
		v.add(path, "has no work to send back: %q builds on no phase; leave it out", textfmt.Shorten(phase, 80))
	case to == phase:
		v.add(path+field, "%q cannot send its own work back, because it can correct that itself%s", textfmt.Shorten(to, 80),
			textfmt.Suggest("", above, "choose one of"))
	default:
		v.add(path+field, "%q does not build on %q, so it cannot send its work back%s", textfmt.Shorten(phase, 80),
			textfmt.Shorten(to, 80), textfmt.Suggest("", above, "choose one of"))
	}
}

// delivery checks a phase that delivers: it has only what a delivery can use.
func (v *validator) delivery(path string, p Phase) {
	for _, f := range []struct {
		key, remedy string
		set         bool
	}{
		{"order", "leave it out", p.Order != ""},
		{"produces", "set it at a phase that this one needs", len(p.Produces) > 0},
		{"checks", "set it at a phase that this one needs", len(p.Checks) > 0},
		{"protected", "set it at a phase that this one needs", len(p.Protected) > 0},
		{"integrator", "leave it out", p.Integrator != ""},
		{"budget", "leave it out: a delivery calls no model", p.Budget != Cap{}},
		{"approve", "set it at a phase that this one needs, or write `merge: ask` in deliver", p.Approve.Wanted()},
		{"sends_back", "name that phase as `fix` in deliver", p.SendsBack != nil},
	} {
		if f.set {
			v.add(path+"."+f.key, "belongs to phases with personas; %s", f.remedy)
		}
	}
	first := slices.IndexFunc(v.team.Phases, func(p Phase) bool { return p.Deliver != nil })
	if other := v.team.Phases[first]; other.Deliver.To != p.Deliver.To {
		v.add(path+".deliver.to", "is %q, but phase %q delivers to %q; all phases of a team deliver to the same agent",
			textfmt.Shorten(p.Deliver.To, 80), textfmt.Shorten(other.Name, 80), textfmt.Shorten(other.Deliver.To, 80))
	}
}

// cycles reports each cycle once, at the edge that closes it. Edges with a problem of their own are
// left out.
func (v *validator) cycles() {
	graph := v.team.Resolved()
	for i := range graph.Phases {
		p := &graph.Phases[i]
		p.Needs = slices.DeleteFunc(slices.Clone(p.Needs), func(n string) bool {
			_, ok := graph.Phase(n)
			return !ok || n == p.Name
		})
	}
	free := graph.Topological()
	reported := map[string]bool{}
	for _, p := range graph.Phases {
		cycle := graph.cycleFrom(p.Name, free)
		if len(cycle) == 0 || slices.ContainsFunc(cycle, func(n string) bool { return reported[n] }) {
			continue
		}
		for _, name := range cycle {
			reported[name] = true
		}
		v.add(v.edge(cycle[0], cycle[1]), "the phases need each other in a circle: %s; take one of these needs away",
			strings.Join(cycle, " → "))
	}
}

// cycleFrom follows needs from a phase, through phases that may be part of cycles, until it reaches
// a phase again, and returns the cycle: its first phase is also its last. Nil if the phase is in no
// cycle.
func (t Team) cycleFrom(name string, free []string) []string {
	var walked []string
	for !slices.Contains(free, name) {
		if i := slices.Index(walked, name); i >= 0 {
			return append(walked[i:], name)
		}
		walked = append(walked, name)
		p, _ := t.Phase(name)
		next := slices.IndexFunc(p.Needs, func(n string) bool { return !slices.Contains(free, n) })
		if next < 0 {
			return nil
		}
		name = p.Needs[next]
	}
	return nil
}

// edge is the path of the need from one phase to another: that of the phase itself if the file
// leaves its needs out.
func (v *validator) edge(from, to string) string {
	i := slices.IndexFunc(v.team.Phases, func(p Phase) bool { return p.Name == from })
	path := ItemPath("$.phases", i)
	if j := slices.Index(v.team.Phases[i].Needs, to); j >= 0 {
		return ItemPath(path+".needs", j)
	}
	return path
}
