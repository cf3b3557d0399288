package control

import (
	"encoding/json"
	"hash/fnv"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// place is what a reader has received of an assignment.
type place struct {
	// ended counts the attempts that have ended, and offset is that in the live log of the next one.
	ended  int
	offset int64
}

// assignmentsOf lists the assignments of a session, in the order of the team file.
func assignmentsOf(e session.Execution) (all []spec.AssignmentID) {
	for _, p := range e.Phases {
		for _, as := range p.Assignments {
			all = append(all, spec.AssignmentID{Phase: p.Name, Persona: as.Persona})
		}
	}
	return all
}

// positionOf is the text by which a reader continues: a list of numbers, which are a hash of the names of the assignments, and
// the place of each. It returns in a header of a request, and proxies permit 8 KiB for all of them.
func positionOf(all []spec.AssignmentID, places map[spec.AssignmentID]place) string {
	numbers := []int64{namesHash(all)}
	for _, id := range all {
		numbers = append(numbers, int64(places[id].ended), places[id].offset)
	}
	data, _ := json.Marshal(numbers) // plain data
	return string(data)
}

// placesAt reads a position. One of another team, which a resume has replaced, is the beginning.
func placesAt(position string, all []spec.AssignmentID) (map[spec.AssignmentID]place, error) {
	places := map[spec.AssignmentID]place{}
	if position == "" || position == FollowNew {
		return places, nil
	}
	var numbers []int64
	if err := json.Unmarshal([]byte(position), &numbers); err != nil || len(numbers)%2 != 1 {
		return nil, invalidf("from", "%q is not a position of these events; start without one", textfmt.Shorten(position, 40))
	}
	if numbers[0] == namesHash(all) && len(numbers) == 1+2*len(all) {
		for i, id := range all {
			places[id] = place{int(numbers[1+2*i]), max(numbers[2+2*i], 0)}
		}
	}
	return places, nil
}

func namesHash(all []spec.AssignmentID) int64 {
	h := fnv.New32a()
	for _, id := range all {
		_, _ = h.Write([]byte(id.String() + "\n")) // never fails
	}
	return int64(h.Sum32())
}
