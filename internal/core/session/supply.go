package session

import (
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// SupplyPhase returns the assignments of a phase whose work was not done by its personas but
// supplied: by a person, by an import, by another system. The integrator gets the work, the others
// an empty delta. Supplied work has no basis, so it is never stale. empty is the blob of a delta
// that changes nothing.
func SupplyPhase(p spec.Phase, w Work, input, empty spec.Digest, summary string) []CheckpointAssignment {
	out := make([]CheckpointAssignment, 0, len(p.Personas))
	for _, persona := range p.Personas {
		a := CheckpointAssignment{
			AssignmentID:      spec.AssignmentID{Phase: p.Name, Persona: persona},
			AssignmentSummary: NoWork(), BasedWork: BasedWork{Input: input, Work: Work{Delta: empty}},
		}
		a.Status = Supplied
		if persona == p.Integrator {
			a.Work, a.Summary = w, textfmt.Shorten(summary, MaxSummary)
		}
		out = append(out, a)
	}
	return out
}
