package workflows

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// diamond is a schedule of phase top, left and right on it, and bottom on both. No phase
// is done, and top may start.
func diamond(change ...func(*activities.Admission)) *schedule {
	t := &spec.Team{Phases: []spec.Phase{
		{Name: "top", Needs: []string{}, Personas: []string{"a"}},
		{Name: "left", Needs: []string{"top"}, Personas: []string{"b"}},
		{Name: "right", Needs: []string{"top"}, Personas: []string{"c"}},
		{Name: "bottom", Needs: []string{"left", "right"}, Personas: []string{"d"}, SendsBack: &spec.SendsBack{To: "left", Times: 2}},
	}}
	admission := activities.Admission{Todo: []string{"top", "left", "right", "bottom"}}
	for _, f := range change {
		f(&admission)
	}
	s := &schedule{}
	s.load(t, session.Course{}, admission)
	s.byName["top"].Input = "start"
	return s
}

// TestReworksOfEarlierRunsCount has work sent back before, by a phase that the
// team still has and by one that it does not have any more.
func TestReworksOfEarlierRunsCount(t *testing.T) {
	t.Parallel()
	by := func(phase string, open ...string) session.Rework {
		return session.Rework{To: "left", From: spec.AssignmentID{Phase: phase, Persona: "d"}, Open: open}
	}
	s := diamond(func(a *activities.Admission) {
		a.Todo = []string{"left", "bottom"}
		a.Reworks = []session.Rework{by("bottom", "left", "right"), by("gone")}
		a.Notes = map[string]string{"left/b": "mind the edges"}
		a.Partial = []activities.RestoredWork{{CheckpointAssignment: session.CheckpointAssignment{AssignmentID: spec.AssignmentID{
			Phase: "left", Persona: "b",
		}}}}
	})
	require.Equal(t, 1, s.sendBacksLeft(s.byName["bottom"]), "one of two")
	require.Equal(t, 0, s.sendBacksLeft(s.byName["left"]), "it may not at all")
	require.NotNil(t, s.byName["left"].Rework)
	require.Nil(t, s.byName["right"].Rework, "it was done again")
	require.Equal(t, "mind the edges", s.assignment(spec.AssignmentID{Phase: "left", Persona: "b"}).Note)
	require.True(t, s.hasWork(s.byName["left"]))
}
