package activities_test

import (
	"context"
	"encoding/json"
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
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
)

// merge executes the merge of the desk's phase, whose checks are check.
func (d *desk) merge(check func(ctx context.Context) error) (activities.MergeResult, error) {
	d.t.Helper()
	return d.mergeOf("", check)
}

func (d *desk) mergeOf(order activities.OutageStance, check func(ctx context.Context) error) (activities.MergeResult, error) {
	d.t.Helper()
	d.agents.checkIn = check
	merges := &activities.Merges{Rounds: roundsOf(d.store, d.store.State, d.agents)}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(merges.Merge)
	var result activities.MergeResult
	value, err := env.ExecuteActivity(merges.Merge, activities.MergeInput{
		Phase: "build", Integrator: "dev", Head: d.head, Input: d.input, Outage: order,
	})
	if err != nil {
		return result, err
	}
	require.NoError(d.t, value.Get(&result))
	return result, nil
}

// mergeLog is the state of the merge in its row.
func (d *desk) mergeLog() (log session.MergeLog) {
	d.t.Helper()
	var outage string
	require.NoError(d.t, statetest.SQLite(d.t, d.store.Dir()).QueryRow(`select started, lost, outage from merges`).Scan(&log.Started,
		&log.Lost, &outage))
	require.NoError(d.t, json.Unmarshal([]byte(outage), &log.Outage))
	return log
}

func newMerge(t *testing.T) *desk {
	d := newDesk(t)
	d.team.Phases[0] = spec.Phase{Name: "build", Personas: []string{"dev"}, Checks: []string{"good"}}
	d.admit()
	return d
}

// TestMergeWaitsForItsMachine: what fails its checks is nobody's work, so nobody has to fix it.
func TestMergeWaitsForItsMachine(t *testing.T) {
	t.Parallel()
	full := func(context.Context) error { return failures.Failf(failures.ResourceError, "no space") }
	d := newMerge(t)
	d.patient(time.Hour, spec.OutageWait)
	for waits := range 3 {
		_, err := d.merge(full)
		require.Positive(t, requireType(t, err, session.RecoverableError).NextRetryDelay())
		require.Equal(t, waits+1, d.mergeLog().Outage.Tries)
		require.False(t, d.mergeLog().Started)
	}
	result, err := d.merge(func(context.Context) error { return nil })
	require.NoError(t, err)
	require.Nil(t, result.Failure)

	d = newMerge(t)
	d.patient(time.Nanosecond, spec.OutageWait)
	_, err = d.merge(full)
	requireType(t, err, session.RecoverableError)
	_, err = d.merge(full)
	var stop activities.OutageStop
	require.NoError(t, requireType(t, err, session.ProviderOutage).Details(&stop))
	require.Equal(t, "no space", stop.Failure.Message)
	_, err = d.mergeOf(activities.OutageNoticed, full)
	requireType(t, err, session.RecoverableError)

	d = newMerge(t)
	d.patient(time.Nanosecond, spec.OutageFail)
	_, err = d.merge(full)
	requireType(t, err, session.RecoverableError)
	result, err = d.merge(full)
	require.NoError(t, err)
	require.Equal(t, failures.ResourceError, result.Failure.Category)
}

// conflict is a phase of two personas, p and q, whose work is merged.
type conflict struct {
	*past
	input spec.Digest
	work  []session.CheckpointAssignment
}

func newConflict(t *testing.T, base cas.Manifest, deltas [2]cas.Delta, decisions [2]string) *conflict {
	t.Helper()
	c := &conflict{past: newPast(t)}
	var err error
	c.input, err = c.store.Content.PutManifest(t.Context(), base)
	require.NoError(t, err)
	for i, persona := range []string{"p", "q"} {
		delta, err := c.store.Content.PutDelta(t.Context(), deltas[i])
		require.NoError(t, err)
		w := session.CheckpointAssignment{AssignmentID: spec.AssignmentID{Phase: "pair", Persona: persona}}
		if w.Delta = delta; decisions[i] != "" {
			w.Decisions = map[string]string{"database": decisions[i]}
		}
		c.work = append(c.work, w)
	}
	return c
}

// byReference is the personas' work as in a session where it is too large for a payload.
func (c *conflict) byReference() activities.PhaseWork {
	data, err := json.Marshal(activities.PhaseWork{List: c.work})
	require.NoError(c.t, err)
	boundaries := &activities.Boundaries{Files: c.store.Content, Observer: nobody}
	large, err := boundaries.StoreValue(c.t.Context(), activities.StoreValueInput{JSON: data})
	require.NoError(c.t, err)
	return activities.PhaseWork{Large: &large}
}

func (c *conflict) merge() (out activities.MergeResult) {
	c.t.Helper()
	rounds := roundsOf(c.store, c.db(), &agents{})
	execute(c.t, (&activities.Merges{Rounds: rounds}).Merge, activities.MergeInput{
		Phase: "pair", Integrator: "q", Head: c.head, Input: c.input, Assignments: c.byReference(),
	}, &out)
	return out
}

// integrate has q do a round on the merged tree, and merges again.
func (c *conflict) integrate(on activities.MergeResult,
	run func(tree string, brief session.Brief) session.Outcome,
) activities.MergeResult {
	c.t.Helper()
	agents := &agents{run: func(_ context.Context, job session.Job) (session.Outcome, error) {
		return run(job.Tree, job.Brief), nil
	}}
	var r session.RoundResult
	execute(c.t, roundsOf(c.store, c.db(), modelled{agents, c.model}).Run, activities.RoundInput{
		AssignmentID: c.work[1].AssignmentID, Round: 1 + len(c.work[1].Integrated), Rounds: 9, Head: c.head, Input: on.Tree,
		Beside: c.byReference(), Feedback: on.Feedback, Integrating: true,
	}, &r)
	files, err := c.store.Content.Manifest(c.t.Context(), r.Output)
	require.NoError(c.t, err)
	for p := range files {
		require.NotContains(c.t, p, session.MergeDir, "the versions are not part of the result")
	}
	c.work[1].Integrated = append(c.work[1].Integrated, r.Work)
	return c.merge()
}

// TestAConflictIsNotSettledByRemovingAllVersions without a word.
func TestAConflictIsNotSettledByRemovingAllVersions(t *testing.T) {
	t.Parallel()
	texts := newPast(t)
	set := func(text string) cas.Change {
		return cas.Change{Entry: cas.Entry{SHA256: texts.blob([]byte(text)), Size: int64(len(text))}}
	}
	c := newConflict(t, cas.Manifest{}, [2]cas.Delta{{"f": set("1")}, {"f": set("2")}}, [2]string{})
	c.blob([]byte("1"))
	c.blob([]byte("2"))
	remove := func(kept map[string]session.Kept) func(tree string, _ session.Brief) session.Outcome {
		return func(tree string, _ session.Brief) session.Outcome {
			require.NoError(t, os.RemoveAll(filepath.Join(tree, "f")))
			return session.Outcome{Kept: kept}
		}
	}
	at := c.integrate(c.merge(), remove(nil))
	require.Contains(t, at.Failure.Message, "f (pair/p, pair/q): nothing is left there")
	at = c.integrate(at, func(tree string, _ session.Brief) session.Outcome {
		require.NoError(t, os.WriteFile(filepath.Join(tree, "f"), nil, 0o600))
		return session.Outcome{}
	})
	require.Contains(t, at.Failure.Message, "f (pair/p, pair/q): nothing is left there")
	at = c.integrate(at, remove(map[string]session.Kept{"f": {From: "p", Why: "it is newer"}}))
	require.Contains(t, at.Failure.Message, "the version of p is kept, but it has another one")
	at = c.integrate(at, remove(map[string]session.Kept{"f": {From: session.KeptNone, Why: "nobody needs it"}}))
	require.Nil(t, at.Failure)
	require.Equal(t, []string{"f: the version of p, q is dropped, nothing is left there: nobody needs it"}, at.Dropped)
}

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
		rounds := roundsOf(p.store, p.db(), modelled{&agents{run: func(_ context.Context, job session.Job) (session.Outcome, error) {
			briefs = append(briefs, job.Brief)
			return run(job.Tree), nil
		}}, p.model})
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
