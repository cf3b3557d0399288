package control

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// A position returns in a header, so that it has to stay small also for the largest team.
func TestAPositionIsSmall(t *testing.T) {
	t.Parallel()
	all, places := []spec.AssignmentID{}, map[spec.AssignmentID]place{}
	for i := range 500 {
		id := spec.AssignmentID{Phase: fmt.Sprintf("a-phase-with-a-name-%d", i), Persona: "dev"}
		all, places[id] = append(all, id), place{ended: i % 10}
		if i < 50 {
			places[id] = place{i, 1<<40 + int64(i)}
		}
	}
	text := positionOf(all, places)
	require.Less(t, len(text), 4096)
	read, err := placesAt(text, all)
	require.NoError(t, err)
	require.Equal(t, places, read)
	read, err = placesAt(text, all[1:])
	require.NoError(t, err)
	require.Empty(t, read, "of another team, everything is sent again")
}
