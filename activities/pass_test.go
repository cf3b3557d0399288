package activities_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// TestWhoPaysAnew: an answer that led to work which a person does not want, or which failed by its own fault, is not used
// again. Every other one is.
func TestWhoPaysAnew(t *testing.T) {
	t.Parallel()
	stopped := func(f *failures.Failure) func(*desk, *conversation, *activities.RoundInput) {
		return func(d *desk, c *conversation, in *activities.RoundInput) {
			c.fails = func(turn int) *failures.Failure {
				if turn == 2 {
					return f
				}
				return nil
			}
			in.Rounds = 1
			for range 3 {
				_, _ = d.roundOf(*in)
			}
			require.True(d.t, d.record().Rounds[0].Last)
			c.fails = nil
		}
	}
	done := func(d *desk, _ *conversation, in *activities.RoundInput) {
		_, err := d.roundOf(*in)
		require.NoError(d.t, err)
	}
	cutOff := func(d *desk, c *conversation, in *activities.RoundInput) {
		c.die = func(step string) bool { return step == "2 reserved" }
		_, err := d.roundOf(*in)
		require.Error(d.t, err)
		c.die = nil
	}
	order := func(why session.Because) func(*desk, *activities.RoundInput) {
		return func(_ *desk, in *activities.RoundInput) { in.Ordered, in.Because = 1, why }
	}
	resume := func(d *desk, in *activities.RoundInput) {
		d.resume(session.Course{})
		in.Head = d.head
	}
	for name, c := range map[string]struct {
		before func(*desk, *conversation, *activities.RoundInput)
		then   func(*desk, *activities.RoundInput)
		paid   int
	}{
		"sent back or rejected": {done, order(session.BecauseSentBack), 4},
		// each of its 3 attempts begins anew
		"retried after its own fault": {
			stopped(failures.Failf(failures.InvalidOutput, "no")), order(session.BecauseRetried),
			5,
		},
		"retried after the provider's failure": {stopped(failures.Failf(failures.Auth, "no")), order(session.BecauseRetried), 2},
		"resumed after its own fault":          {stopped(failures.Failf(failures.InvalidOutput, "no")), resume, 5},
		"resumed":                              {cutOff, resume, 2},
		"reset":                                {cutOff, func(d *desk, _ *activities.RoundInput) { d.run = 2 }, 2},
		"reset after its end":                  {done, func(d *desk, _ *activities.RoundInput) { d.run = 2 }, 2},
		"its input has changed": {cutOff, func(d *desk, in *activities.RoundInput) {
			in.Input = d.manifest(map[string]string{"new.txt": "new"})
			resume(d, in)
		}, 2}, // the requests are the same here
		"forced": {done, func(d *desk, in *activities.RoundInput) {
			d.resume(session.Course{Force: []string{"build"}})
			in.Head, in.Forced = d.head, true
		}, 4},
		"forced, in work that was cut off": {cutOff, func(d *desk, in *activities.RoundInput) {
			d.resume(session.Course{Force: []string{"build"}})
			in.Head, in.Forced = d.head, true
		}, 3},
		"sent back, and resumed before it was done again": {done, func(d *desk, in *activities.RoundInput) {
			_, _, err := d.db().PutBoundary(d.t.Context(), state.Boundary{
				Key: d.key(), TemporalRun: testRun, At: time.Now(),
				Undone: []string{"build"},
			})
			require.NoError(d.t, err)
			resume(d, in)
		}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			talk := &conversation{turns: 2}
			d.converse(talk)
			in := d.roundInput()
			c.before(d, talk, &in)
			d.earlier++
			c.then(d, &in)
			for range 2 { // the second time after a lost worker
				_, err := d.roundOf(in)
				require.NoError(t, err)
			}
			require.Len(t, talk.paid, c.paid)
		})
	}
}

func TestNoteReachesEveryAttempt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	in := d.roundInput()
	in.Note = "mind the tests"
	d.agents.run = fail(failures.TestFailure)
	for range 2 {
		_, err := d.roundOf(in)
		requireType(t, err, session.RecoverableError)
	}
	require.Equal(t, &session.Feedback{Note: "mind the tests"}, d.agents.runs[0].Feedback, "also without a failure to tell of")
	require.Equal(t, failures.TestFailure, d.agents.runs[1].Feedback.Category)
	require.Equal(t, "mind the tests", d.agents.runs[1].Feedback.Note)
}

// sentBack is a desk whose assignment has done its work, a file a.txt, which a
// later phase has then sent back.
func sentBack(t *testing.T) (*desk, activities.RoundInput) {
	d := newDesk(t)
	d.team.Personas["tester"] = spec.Persona{Role: "r", Agent: "a", Instructions: "do", Attempts: 3}
	d.team.Phases = append(d.team.Phases, spec.Phase{
		Name: "test", Personas: []string{"tester"}, Produces: []string{"report.txt"}, SendsBack: &spec.SendsBack{To: "build", Times: 2},
	})
	d.team = d.team.Resolved()
	d.admit()
	done, err := d.round()
	require.NoError(t, err)
	rework := session.Rework{
		To: "build", From: spec.AssignmentID{Phase: "test", Persona: "tester"},
		Reasons: []string{"b.txt is missing", "a.txt is too short"}, Count: 1, Of: 2, At: time.Now(), Open: []string{"build", "test"},
	}
	kept := rework
	kept.Undone = []session.CheckpointAssignment{{
		AssignmentID: d.roundInput().AssignmentID, AssignmentSummary: session.AssignmentSummary{Status: session.Completed},
		BasedWork: session.BasedWork{Input: d.input, Work: session.Work{Delta: done.Delta}},
	}}
	c, err := d.store.Checkpoint(t.Context(), d.head)
	require.NoError(t, err)
	c.Reworks, c.Previous = []session.Rework{kept}, d.head
	d.head, err = putCheckpoint(t, d.store, d.key(), c)
	require.NoError(t, err)
	d.agents.runs = nil
	d.earlier++
	in := d.roundInput()
	in.Ordered, in.Because, in.Rework = 1, session.BecauseSentBack, &rework
	return d, in
}

const reasons = "- b.txt is missing\n- a.txt is too short\n"

// here lists what an attempt finds in its directory.
func here(t *testing.T, job session.Job) []string {
	t.Helper()
	entries, err := os.ReadDir(job.Tree)
	require.NoError(t, err)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestWorkThatWasSentBackIsDoneOnFromItsFiles(t *testing.T) {
	t.Parallel()
	d, in := sentBack(t)
	d.agents.conversation, d.agents.continuable = spec.InDirectory, true
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		require.Equal(t, []string{"a.txt"}, here(t, job))
		require.True(t, job.Continues, "in its conversation")
		return leave("b.txt", "y")(ctx, job)
	}
	result, err := d.roundOf(in)
	require.NoError(t, err)
	f := d.agents.runs[0].Feedback
	require.Equal(t, failures.Rejected, f.Category)
	require.Equal(t, "test/tester sent the work back (1 of 2)", f.Message)
	require.Equal(t, reasons, f.Output)
	require.Equal(t, failures.RuleFor(failures.Rejected).Advice, f.Advice)
	require.True(t, f.Kept)
	require.Contains(t, f.Diff, "a.txt")
	require.Equal(t, failures.FromConversation, result.From)
	require.Equal(t, d.input, result.Input, "the work is still a function of its input")
	require.Equal(t, 2, result.Files, "so that it has the files of both passes")
	require.Equal(t, session.Order{Pass: 2, AnswersFrom: 2, Run: 1, Because: session.BecauseSentBack}, d.record().Rounds[1].Order)
}

func TestReasonsAreToldUntilTheWorkIsAccepted(t *testing.T) {
	t.Parallel()
	for category, found := range map[failures.Category][]string{
		failures.TestFailure:   {"a.txt", "b.txt"}, // the failed attempt's
		failures.InvalidOutput: {"a.txt"},          // what the pass has begun with
	} {
		t.Run(string(category), func(t *testing.T) {
			t.Parallel()
			d, in := sentBack(t)
			d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
				out, err := leave("b.txt", "y")(ctx, job)
				require.NoError(t, err)
				return out, failures.Failf(category, "no good")
			}
			_, err := d.roundOf(in)
			requireType(t, err, session.RecoverableError)
			d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
				require.Equal(t, found, here(t, job))
				return leave("c.txt", "z")(ctx, job)
			}
			result, err := d.roundOf(in)
			require.NoError(t, err)
			require.Equal(t, failures.FromFiles, result.From)
			f := d.agents.runs[1].Feedback
			require.Equal(t, category, f.Category)
			require.Equal(t, "test/tester sent the work back (1 of 2):\n"+reasons, f.SentBack)
		})
	}
}

func TestLaterPhasesAreToldOfARework(t *testing.T) {
	t.Parallel()
	d, in := sentBack(t)
	in.Phase, in.Persona, in.SendBacksLeft = "test", "tester", 1
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		require.Empty(t, here(t, job))
		return leave("report.txt", "y")(ctx, job)
	}
	_, err := d.roundOf(in)
	require.NoError(t, err)
	brief := d.agents.runs[0]
	require.Equal(t, "test/tester sent the work of build back (1 of 2); it was done again since", brief.Feedback.Message)
	require.Equal(t, reasons, brief.Feedback.Output)
	require.Contains(t, brief.Feedback.Advice, "Do your work")
	require.Equal(t, &session.MaySendBack{To: "build", Left: 1}, brief.MaySendBack)
}

func TestResultMaySendWorkBack(t *testing.T) {
	t.Parallel()
	finds := func(_ context.Context, job session.Job) (session.Outcome, error) {
		return session.Outcome{Summary: "found", SendsBack: []string{"it does not build"}}, nil
	}
	t.Run("where the phase may", func(t *testing.T) {
		t.Parallel()
		for _, left := range []int{1, 0} { // with none left, it is the session that asks a person
			d, in := sentBack(t)
			in.Phase, in.Persona, in.SendBacksLeft, in.Rework, in.Ordered, in.Because = "test", "tester", left, nil, 0, ""
			heard := &witness{}
			d.agents.run, d.observer = finds, heard
			result, err := d.roundOf(in)
			require.NoError(t, err, "it is held to no contract")
			require.Equal(t, []string{"it does not build"}, result.SendsBack)
			require.Equal(t, &session.MaySendBack{To: "build", Left: left}, d.agents.runs[0].MaySendBack)
			require.NotContains(t, heard.heard, "assignment of t completed")
			again, err := d.roundOf(in)
			require.NoError(t, err)
			require.Equal(t, result.SendsBack, again.SendsBack, "also when the worker died before it could say so")
			require.Len(t, d.agents.runs, 1)
		}
	})
	t.Run("but not when it mends the merged tree", func(t *testing.T) {
		t.Parallel()
		d, in := sentBack(t)
		in.Phase, in.Persona, in.Rework, in.Integrating = "test", "tester", nil, true
		d.agents.run = finds
		_, err := d.roundOf(in)
		require.ErrorContains(t, err, "invalid_output: the result has sends_back, but this round fixes")
		require.Nil(t, d.agents.runs[0].MaySendBack)
	})
	t.Run("and nowhere else", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t)
		d.agents.run = finds
		_, err := d.round()
		requireType(t, err, session.RecoverableError)
		require.ErrorContains(t, err, "invalid_output: the result has sends_back, but phase build has no sends_back in the team file")
		require.Nil(t, d.agents.runs[0].MaySendBack)
	})
}

// manifest stores files.
func (d *desk) manifest(files map[string]string) spec.Digest {
	d.t.Helper()
	dir := d.t.TempDir()
	for name, text := range files {
		require.NoError(d.t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(d.t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	empty, err := d.store.Content.Overlay(d.t.Context(), d.input, d.input)
	require.NoError(d.t, err)
	collected, err := d.store.Content.Collect(d.t.Context(), session.Collect{Base: empty.Output, Dir: dir})
	require.NoError(d.t, err, fmt.Sprint(files))
	return collected.Output
}
