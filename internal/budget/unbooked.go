package budget

import "github.com/maestro-hive/maestro/internal/team"

// Unbooked is usage that a session's status tells of and its ledger does not: it was
// spent before there were ledgers.
type Unbooked struct {
	// Assignment is empty for what the status has in all beyond its assignments.
	Assignment team.AssignmentID
	Usage      team.Usage
}

// FindUnbooked compares a status with a ledger; nil: there is none, and nothing is
// booked. What has no usage is left out.
func FindUnbooked(s team.Status, l *Ledger) []Unbooked {
	var all []Unbooked
	var told team.Usage
	add := func(id team.AssignmentID, rest team.Usage) {
		if rest != (team.Usage{}) {
			all = append(all, Unbooked{id, rest})
		}
	}
	known := map[string]bool{}
	for _, p := range s.Phases {
		for _, as := range p.Assignments {
			id := team.AssignmentID{Phase: p.Name, Persona: as.Persona}
			known[id.String()] = true
			told = told.Add(as.Usage)
			var booked team.Usage
			if l != nil {
				booked = l.Row(id).Usage()
			}
			add(id, beyond(as.Usage, booked))
		}
	}
	var dropped team.Usage
	if l != nil {
		for name, row := range l.Rows {
			if !known[name] {
				dropped = dropped.Add(row.Usage())
			}
		}
	}
	add(team.AssignmentID{}, beyond(beyond(s.Usage, told), dropped))
	return all
}

// beyond is what one usage has more than another. Where it has less of anything, the
// other is the newer.
func beyond(u, v team.Usage) team.Usage {
	rest := u.Minus(v)
	if rest != rest.Max(team.Usage{}) {
		return team.Usage{}
	}
	return rest
}
