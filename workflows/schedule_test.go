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

// finished has phases of a diamond recorded, the next ones with their input.
func finished(phases ...string) *schedule {
	s := diamond()
	for _, name := range phases {
		next, _ := s.unlockedBy(s.byName[name])
		s.byName[name].Todo = false
		for _, n := range next {
			s.byName[n].Input = "input"
		}
	}
	return s
}

func noCancel() {}

// TestThePhaseThatAwaitsApprovalIsOpen sees that what it holds back is not.
func TestThePhaseThatAwaitsApprovalIsOpen(t *testing.T) {
	t.Parallel()
	open := func(s *schedule) (open []string) {
		for _, p := range s.Phases {
			if s.open(p) {
				open = append(open, p.Name)
			}
		}
		return open
	}
	s := finished("top")
	require.Equal(t, []string{"left", "right"}, open(s))
	s.byName["top"].approval = &request{}
	require.Equal(t, []string{"top"}, open(s))
}

// TestWhichPhasesAreReady walks through the states of a schedule.
func TestWhichPhasesAreReady(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schedule   *schedule
		change     func(*schedule)
		ready      []string
		idle, done bool
	}{
		"nothing is done":    {schedule: finished(), ready: []string{"top"}},
		"two are unlocked":   {schedule: finished("top"), ready: []string{"left", "right"}},
		"one of two is done": {schedule: finished("top", "left"), ready: []string{"right"}},
		"both are done":      {schedule: finished("top", "left", "right"), ready: []string{"bottom"}},
		"all are done":       {schedule: finished("top", "left", "right", "bottom"), idle: true, done: true},
		"an approval holds back": {
			schedule: finished("top"),
			change:   func(s *schedule) { s.byName["top"].approval = &request{} },
		},
		"an approval at the end": {
			schedule: finished("top", "left", "right", "bottom"),
			change:   func(s *schedule) { s.byName["bottom"].approval = &request{} }, idle: true,
		},
		"an approval has to be reopened": {
			schedule: finished("top"), change: func(s *schedule) { s.byName["top"].Unapproved = true },
			ready: []string{"top"},
		},
		"a conflict is to be resolved": {
			schedule: finished("top", "left", "right"), ready: []string{"bottom"},
			change: func(s *schedule) {
				s.byName["bottom"].Input, s.byName["bottom"].Conflict = "", &mergeConflict{Merged: "later"}
			},
		},
		"the last one is at work": {
			schedule: finished("top", "left", "right", "bottom"),
			change:   func(s *schedule) { s.byName["bottom"].cancel = noCancel }, done: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.change != nil {
				c.change(c.schedule)
			}
			var ready []string
			for _, p := range c.schedule.Phases {
				if c.schedule.ready(p) {
					ready = append(ready, p.Name)
				}
			}
			require.Equal(t, c.ready, ready)
			require.Equal(t, c.idle, c.schedule.idle(), "idle")
			require.Equal(t, c.done, c.schedule.done(), "done")
		})
	}
}

// TestWhatAFinishedPhaseUnlocks leaves out what still waits for another phase.
func TestWhatAFinishedPhaseUnlocks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before []string
		phase  string
		ready  []string
		last   bool
	}{
		{nil, "top", []string{"left", "right"}, false},
		{[]string{"top"}, "left", nil, false},
		{[]string{"top", "left"}, "right", []string{"bottom"}, false},
		{[]string{"top", "left", "right"}, "bottom", nil, true},
	} {
		s := finished(c.before...)
		ready, last := s.unlockedBy(s.byName[c.phase])
		require.Equal(t, c.ready, ready, c.phase)
		require.Equal(t, c.last, last, c.phase)
	}
	s := finished("top", "left", "right")
	bottom := s.byName["bottom"]
	bottom.cancel = noCancel
	require.True(t, s.isOnlyRunning(bottom))
	s.byName["left"].approval = &request{}
	require.False(t, s.isOnlyRunning(bottom), "a person has something to decide")
}

// TestWhatIsDoneAgain sends work back: what builds on it and has begun is done again.
func TestWhatIsDoneAgain(t *testing.T) {
	t.Parallel()
	s := finished("top", "left", "right")
	s.byName["bottom"].cancel = noCancel
	again := s.undo("left")
	require.Equal(t, []string{"left", "bottom"}, names(again))
	approval := &request{}
	s.byName["left"].approval = approval
	require.Same(t, approval, s.reopen(s.byName["left"]))
	require.True(t, s.byName["left"].Todo)
	require.Empty(t, s.byName["bottom"].Input, "it starts from the new work")
	require.Equal(t, 1, s.assignment(spec.AssignmentID{Phase: "left", Persona: "b"}).Ordered)
	require.Equal(t, []string{"left"}, names(finished("top", "left").undo("left")), "bottom has not begun")
	paused := finished("top")
	paused.byName["left"].Work = []*assignment{{}} // it waits for a person, or for the next run
	require.Equal(t, []string{"top", "left"}, names(paused.undo("top")))

	atEnd := finished("top", "left", "right", "bottom")
	atEnd.byName["right"].Conflict = &mergeConflict{}
	atEnd.undo("left")
	require.Nil(t, atEnd.byName["right"].Conflict, "the new work may fit")
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
