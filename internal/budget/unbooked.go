package budget

import (
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// Unbooked is usage that a session's status has and its ledger does not: it was
// spent before there were ledgers.
type Unbooked struct {
	// Assignment is empty for what the status has in all beyond its assignments.
	Assignment spec.AssignmentID
	Usage      cost.Usage
}

// FindUnbooked compares a status with a ledger; nil: there is none, and nothing is
// booked. What has no usage is left out.
func FindUnbooked(s session.Status, l *Ledger) []Unbooked {
	var all []Unbooked
	var told cost.Usage
	add := func(id spec.AssignmentID, rest cost.Usage) {
		if rest != (cost.Usage{}) {
			all = append(all, Unbooked{id, rest})
		}
	}
	known := map[string]bool{}
	for _, p := range s.Phases {
		for _, as := range p.Assignments {
			id := spec.AssignmentID{Phase: p.Name, Persona: as.Persona}
			known[id.String()] = true
			told = told.Add(as.Usage)
			var booked cost.Usage
			if l != nil {
				booked = l.Row(id).Usage()
			}
			add(id, beyond(as.Usage, booked))
		}
	}
	var dropped cost.Usage
	if l != nil {
		for name, row := range l.Rows {
			if !known[name] {
				dropped = dropped.Add(row.Usage())
			}
		}
	}
	add(spec.AssignmentID{}, beyond(beyond(s.Usage, told), dropped))
	return all
}

// beyond is what one usage has more than another. Where it has less of anything, the
// other is the newer.
func beyond(u, v cost.Usage) cost.Usage {
	rest := u.Minus(v)
	if rest != rest.Max(cost.Usage{}) {
		return cost.Usage{}
	}
	return rest
}
