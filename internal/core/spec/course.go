package spec

import (
	"slices"
)

// PhaseNames lists the phases in the file's order.
func (t Team) PhaseNames() []string {
	out := make([]string, len(t.Phases))
	for i, p := range t.Phases {
		out[i] = p.Name
	}
	return out
}

// Between lists, in the file's order, the phases from one on (it and all its dependent phases) and
// up to another (it and all phases that it depends on). An empty name sets no bound; the phases
// must exist.
func (t Team) Between(from, until string) []string {
	var out []string
	for _, p := range t.PhaseNames() {
		after := from == "" || p == from || slices.Contains(t.Ancestors(p), from)
		before := until == "" || p == until || slices.Contains(t.Ancestors(until), p)
		if after && before {
			out = append(out, p)
		}
	}
	return out
}
