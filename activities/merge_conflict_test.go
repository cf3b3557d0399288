package activities_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

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
	large, err := (&activities.Boundaries{Files: c.store.Content}).StoreValue(c.t.Context(), activities.StoreValueInput{JSON: data})
	require.NoError(c.t, err)
	return activities.PhaseWork{Large: &large}
}

func (c *conflict) merge() (out activities.MergeResult) {
	c.t.Helper()
	rounds := &activities.Rounds{
		Files: c.store.Content, WorkDirs: workDirs(c.store), Sessions: c.store, State: c.db(),
		Agents: &agents{}, Clock: time.Now,
	}
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
	rounds := &activities.Rounds{
		Files: c.store.Content, WorkDirs: workDirs(c.store), Sessions: c.store, State: c.db(),
		Agents: modelled{agents, c.model}, Clock: time.Now, LostLimit: 5,
	}
	var r session.RoundResult
	execute(c.t, rounds.Run, activities.RoundInput{
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

func nothing(string, session.Brief) session.Outcome { return session.Outcome{} }

// TestAConflictIsSettledByAResultOrAReason, and by nothing else.
func TestAConflictIsSettledByAResultOrAReason(t *testing.T) {
	t.Parallel()
	set := func(p *past, text string) cas.Change {
		return cas.Change{Entry: cas.Entry{SHA256: p.blob([]byte(text)), Size: int64(len(text))}}
	}
	for _, kind := range []string{"text", "deleted", "moved", "decision"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			texts := newPast(t) // contents are the same in all stores
			deltas, decisions, what := [2]cas.Delta{{}, {}}, [2]string{}, "f"
			switch kind {
			case "text":
				deltas = [2]cas.Delta{{"f": set(texts, "p's")}, {"f": set(texts, "q's")}}
			case "deleted":
				deltas = [2]cas.Delta{{"f": {Deleted: true}}, {"f": set(texts, "q's")}}
			case "moved":
				deltas, what = [2]cas.Delta{{"d/x": {Deleted: true}, "e/x": set(texts, "x")}, {"d/new": set(texts, "new")}}, "d/new"
			case "decision":
				decisions, what = [2]string{"postgres", "sqlite"}, "database"
			}
			c := newConflict(t, cas.Manifest{}, deltas, decisions)
			for _, text := range []string{"f", "x", "p's", "q's", "new"} {
				c.blob([]byte(text))
			}
			var err error
			c.input, err = c.store.Content.PutManifest(t.Context(), cas.Manifest{"f": set(texts, "f").Entry, "d/x": set(texts, "x").Entry})
			require.NoError(t, err)
			at := c.merge()
			require.Contains(t, at.Failure.Message, what)

			at = c.integrate(at, nothing)
			require.Contains(t, at.Failure.Message, "it is as before")
			at = c.integrate(at, func(string, session.Brief) session.Outcome {
				return session.Outcome{Kept: map[string]session.Kept{what: {From: "nobody", Why: "so"}}}
			})
			require.Contains(t, at.Failure.Message, "nobody")
			var seen string
			at = c.integrate(at, func(tree string, brief session.Brief) session.Outcome {
				require.Len(t, brief.Conflicts, 1)
				require.Contains(t, brief.Conflicts[0], what)
				file := map[string]string{"text": "versions/p/f", "deleted": "base/f", "moved": "p.diff", "decision": "decisions.json"}[kind]
				data, err := os.ReadFile(filepath.Join(tree, session.MergeDir, file))
				require.NoError(t, err)
				seen = string(data)
				from := map[bool]string{true: session.KeptAll, false: "q"}[kind == "moved"]
				if kind == "moved" {
					require.NoError(t, os.WriteFile(filepath.Join(tree, "d/new"), []byte("moved"), 0o600))
				}
				return session.Outcome{Kept: map[string]session.Kept{what: {From: from, Why: "it is newer"}}}
			})
			require.Contains(t, seen, map[string]string{"text": "p's", "deleted": "f", "moved": "e/x", "decision": "postgres"}[kind])
			require.Nil(t, at.Failure)
			if kind != "moved" {
				require.Len(t, at.Dropped, 1)
				require.Contains(t, at.Dropped[0], "the version of p is dropped, only that of q is kept: it is newer")
			}
		})
	}
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
