package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// TestWhetherARoundFollows is retry level 2.
func TestWhetherARoundFollows(t *testing.T) {
	t.Parallel()
	retry := spec.Retry{Rounds: 3, RoundInitial: textfmt.Duration(5 * time.Second), RoundMax: textfmt.Duration(20 * time.Second)}
	for _, c := range []struct {
		failure failures.Failure
		round   int
		wait    time.Duration
		again   bool
	}{
		{failures.Failure{Category: failures.TestFailure}, 1, 5 * time.Second, true},
		{failures.Failure{Category: failures.TestFailure}, 2, 10 * time.Second, true},
		{failures.Failure{Category: failures.TestFailure}, 3, 0, false},
		{failures.Failure{Category: failures.RateLimited, RetryAfter: textfmt.Duration(10 * time.Minute)}, 1, 10 * time.Minute, true},
		{failures.Failure{Category: failures.Auth}, 1, 0, false},
	} {
		wait, again := afterRound(c.failure, c.round, retry)
		require.Equal(t, c.again, again, "%+v", c)
		require.Equal(t, c.wait, wait, "%+v", c)
	}
}

// TestADeliveryTakesNoFiles: the request says which answers it takes.
func TestADeliveryTakesNoFiles(t *testing.T) {
	t.Parallel()
	all := session.ForHelp.Rule().Actions
	require.Equal(t, all, answersOf(spec.Phase{Name: "build"}, all))
	r := &request{Request: session.Request{ID: "ship.delivery.1", Kind: session.ForHelp}}
	r.Actions = answersOf(spec.Phase{Name: "ship", Deliver: &spec.Deliver{}}, all)
	err := r.checkAnswer(session.Answer{Action: session.AnswerSupply, Files: "f"}, "s")
	require.ErrorContains(t, err, `request ship.delivery.1 cannot be answered with action "supply"; it takes retry, skip, abort`)
	require.Contains(t, session.ForHelp.Rule().Actions, session.AnswerSupply)
}

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

// TestASessionOfANewerVersionWaitsForAWorker that knows its logic.
func TestASessionOfANewerVersionWaitsForAWorker(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.ExecuteWorkflow(TeamSession, SessionInput{Version: LogicVersion + 1})
	require.ErrorContains(t, env.GetWorkflowError(), "upgrade the worker")
}
