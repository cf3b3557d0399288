package spec

import (
	"reflect"
	"slices"
)

// Differences lists what differs in an assignment's terms between two versions of a team, beyond
// the basis of its work (see [Basis]): what it has to deliver and pass, and its position among the
// others. The teams must be resolved and both have the assignment.
func (t Team) Differences(from Team, id AssignmentID) []string {
	now, before := t.Personas[id.Persona], from.Personas[id.Persona]
	phase, _ := t.Phase(id.Phase)
	old, ok := from.Phase(id.Phase)
	if !ok {
		return nil
	}
	var out []string
	for _, part := range []struct {
		name string
		same bool
	}{
		{"produces", slices.Equal(now.Produces, before.Produces) && slices.Equal(phase.Produces, old.Produces)},
		{"checks", slices.Equal(now.Checks, before.Checks) && slices.Equal(phase.Checks, old.Checks)},
		{"needs", slices.Equal(phase.Needs, old.Needs)},
		{"personas", slices.Equal(phase.Personas, old.Personas)},
		{"order", phase.Order == old.Order},
		{"integrator", phase.Integrator == old.Integrator},
		{"deliver", reflect.DeepEqual(phase.Deliver, old.Deliver)},
	} {
		if !part.same {
			out = append(out, part.name)
		}
	}
	return out
}
