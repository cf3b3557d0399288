package activities_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// branches is a session in which the phases left and right have changed the same file and decided differently, and of
// which join builds on both.
func branches(t *testing.T) (p *past, input spec.Digest) {
	t.Helper()
	p = newPast(t)
	p.team = spec.Team{Version: 1, Name: "relay", Personas: relay().Personas, Phases: []spec.Phase{
		{Name: "left", Personas: []string{"p"}},
		{Name: "right", Personas: []string{"p"}, Needs: []string{}},
		{Name: "join", Personas: []string{"q"}, Needs: []string{"left", "right"}},
	}}.Resolved()
	require.Empty(t, p.admit(session.Course{}).Problems)
	c, err := p.store.Checkpoint(t.Context(), p.head)
	require.NoError(t, err)
	done := map[spec.AssignmentID]session.CheckpointAssignment{}
	for _, phase := range []string{"left", "right"} {
		a := session.CheckpointAssignment{AssignmentID: spec.AssignmentID{Phase: phase, Persona: "p"}}
		a.Status, a.Decisions = session.Completed, map[string]string{"database": phase}
		a.Delta, err = p.store.Content.PutDelta(t.Context(),
			cas.Delta{"f": {Entry: cas.Entry{SHA256: p.blob([]byte(phase)), Size: int64(len(phase))}}})
		require.NoError(t, err)
		c.Assignments, done[a.AssignmentID] = append(c.Assignments, a), a
	}
	p.head, err = putCheckpoint(t, p.store, session.Key{Namespace: c.Temporal.Namespace, Session: c.Temporal.Workflow}, c)
	require.NoError(t, err)
	folded, err := p.store.Content.Fold(t.Context(), p.workspace, session.Steps(p.team, []string{"left", "right"}, done))
	require.NoError(t, err)
	return p, folded.Manifest
}

// TestConflictOfPhasesIsSettledByAResultOrAReason: who merges the work of phases gets all versions, and is held to it as an
// integrator is.
func TestConflictOfPhasesIsSettledByAResultOrAReason(t *testing.T) {
	t.Parallel()
	p, input := branches(t)
	var briefs []session.Brief
	attempt := func(run func(tree string) session.Outcome) (result session.RoundResult, err error) {
		rounds := &activities.Rounds{
			Files: p.store.Content, WorkDirs: workDirs(p.store), Sessions: p.store, State: p.db(), Clock: time.Now, LostLimit: 5,
			Agents: modelled{&agents{run: func(_ context.Context, job session.Job) (session.Outcome, error) {
				briefs = append(briefs, job.Brief)
				return run(job.Tree), nil
			}}, p.model},
		}
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestActivityEnvironment()
		env.RegisterActivity(rounds.Run)
		value, err := env.ExecuteActivity(rounds.Run, activities.RoundInput{
			AssignmentID: spec.AssignmentID{Phase: "join", Persona: "q"}, Round: 1, Rounds: 1, Head: p.head, Input: input, Settles: true,
		})
		if err == nil {
			require.NoError(t, value.Get(&result))
		}
		return result, err
	}
	_, err := attempt(func(tree string) session.Outcome {
		for name, text := range map[string]string{
			"f": "right", session.MergeDir + "/versions/left/p/f": "left", session.MergeDir + "/versions/right/p/f": "right",
		} {
			data, err := os.ReadFile(filepath.Join(tree, name))
			require.NoError(t, err)
			require.Equal(t, text, string(data), name)
		}
		for _, name := range []string{"left/p.diff", "right/p.diff", "decisions.json"} {
			require.FileExists(t, filepath.Join(tree, session.MergeDir, name))
		}
		return session.Outcome{}
	})
	require.Error(t, err)
	require.Equal(t, []string{"f (left/p, right/p)", "decision database (left/p, right/p)"}, briefs[0].Conflicts)
	require.Contains(t, briefs[0].Feedback.Message, "merge conflict between phases")

	result, err := attempt(func(tree string) session.Outcome {
		require.NoError(t, os.WriteFile(filepath.Join(tree, "f"), []byte("left"), 0o600))
		return session.Outcome{Kept: map[string]session.Kept{
			"f": {From: "left/p", Why: "right has nothing new"}, "database": {From: "right/p", Why: "it is newer"},
		}}
	})
	require.NoError(t, err)
	require.Equal(t, failures.ContractViolation, briefs[1].Feedback.Category)
	require.Contains(t, briefs[1].Feedback.Output, "f (left/p, right/p): it is as before")
	require.Equal(t, []string{
		"f: the version of right/p is dropped, only that of left/p is kept: right has nothing new",
		"decision database: the version of left/p is dropped, only that of right/p is kept: it is newer",
	}, result.Dropped)
	files, err := p.store.Content.Manifest(t.Context(), result.Output)
	require.NoError(t, err)
	require.Equal(t, []string{"f"}, files.Paths())
}

// TestWhatAPersonDroppedAtTheEndIsKnownAfterAResume.
func TestWhatAPersonDroppedAtTheEndIsKnownAfterAResume(t *testing.T) {
	t.Parallel()
	p, _ := branches(t)
	c, err := p.store.Checkpoint(t.Context(), p.head)
	require.NoError(t, err)
	p.team.Phases = p.team.Phases[:2]
	c.Answers = []session.Answer{{Action: session.AnswerSkip, Phase: "right", Persona: "p", Work: session.WorkOf("", c.Assignments)}}
	key := session.Key{Namespace: c.Temporal.Namespace, Session: c.Temporal.Workflow}
	p.head, err = putCheckpoint(t, p.store, key, c)
	require.NoError(t, err)
	for range 2 {
		a := p.admit(session.Course{})
		require.Empty(t, a.Problems)
		require.Empty(t, a.Conflicts)
		require.Equal(t, []string{
			"f: the version of left/p is dropped, only that of right/p is kept: a person kept the later version",
			"decision database: the version of left/p is dropped, only that of right/p is kept: a person kept the later version",
		}, a.Status.Phases[1].Assignments[0].Dropped)
	}
}
