package control

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// A position returns in a header, so that it has to stay small however much a session has done.
func TestAPositionDoesNotGrowWithTheSession(t *testing.T) {
	t.Parallel()
	var at followPosition
	done := func(i int) Attempt {
		ended := time.Unix(1_800_000_000, int64(i/3)) // some end together
		id := spec.AssignmentID{Phase: fmt.Sprintf("a-phase-with-a-name-%d", i%200), Persona: fmt.Sprintf("persona-%d", i%64)}
		return Attempt{AttemptRef: AttemptRef{AssignmentID: id, Pass: 1, Round: 1, Attempt: i}, EndedAt: &ended}
	}
	id := func(i int) spec.AssignmentID { return spec.AssignmentID{Phase: "live", Persona: fmt.Sprint("p", i)} }
	const all = 12_800
	for i := range all {
		if i == all-5 { // its end is noticed late
			continue
		}
		at.passed(done(i).AssignmentID, endOf(done(i)))
		at.put(id(i%1000), 1<<40+int64(i))
	}
	text := at.String()
	require.LessOrEqual(t, len(text), maxPosition)
	read, err := followPositionOf(text)
	require.NoError(t, err)
	for i := range all {
		require.Equal(t, i != all-5, read.has(endOf(done(i))), i)
	}
	require.False(t, read.has(endOf(done(all+3))))
	require.EqualValues(t, 1<<40+all-1, read.offset(id((all-1)%1000)))
	require.Zero(t, read.offset(id((all-500)%1000)), "of too many, the oldest is read again")
	read.passed(id((all-1)%1000), endOf(done(all+3)))
	require.Zero(t, read.offset(id((all-1)%1000)), "another attempt begins another log")
}
