package session

import (
	"math/rand"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// diamond is start -> (left, right) -> join, with two personas in left.
func diamond() spec.Team {
	return spec.Team{Version: 1, Name: "t", Personas: map[string]spec.Persona{
		"a": {Agent: "x"}, "b": {Agent: "x"}, "c": {Agent: "y"}, "d": {Agent: "y"}, "e": {Agent: "x"},
	}, Phases: []spec.Phase{
		{Name: "start", Personas: []string{"a"}},
		{Name: "left", Personas: []string{"b", "c"}, Checks: []string{"build"}},
		{Name: "right", Needs: []string{"start"}, Personas: []string{"d"}, Checks: []string{"test"}},
		{Name: "join", Needs: []string{"left", "right"}, Personas: []string{"e"}},
	}}.Resolved()
}

func randomTeam(random *rand.Rand) spec.Team {
	tm := spec.Team{Personas: map[string]spec.Persona{"a": {}, "b": {}, "c": {}}}
	names := []string{"p0", "p1", "p2", "p3", "p4"}
	for i, name := range names {
		p := spec.Phase{Name: name, Needs: []string{}, Personas: []string{"a", "b", "c"}[:1+random.Intn(3)]}
		for _, before := range names[:i] {
			if random.Intn(2) == 0 {
				p.Needs = append(p.Needs, before)
			}
		}
		if random.Intn(2) == 0 {
			p.Order = spec.OrderSequence
		}
		tm.Phases = append(tm.Phases, p)
	}
	return tm.Resolved()
}
