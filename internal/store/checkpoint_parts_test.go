package store_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

// addWork adds a finished phase with one artifact to a checkpoint.
func addWork(c session.Checkpoint, phase string) session.Checkpoint {
	by := spec.AssignmentID{Phase: phase, Persona: "ann"}
	c.CurrentPhase = phase
	c.Assignments = append(slices.Clone(c.Assignments), session.CheckpointAssignment{
		AssignmentID: by, AssignmentSummary: session.AssignmentSummary{Status: session.Completed, Rounds: 1, Attempts: 1, Failures: []session.AttemptFailure{}},
		BasedWork: session.BasedWork{
			Input: sha([]byte("input of " + phase)), Basis: &session.Basis{Persona: sha([]byte(phase))}, Work: session.Work{Delta: sha([]byte("delta of " + phase))},
		},
	})
	return withArtifact(c, session.Artifact{Path: phase + ".txt", SHA256: sha([]byte(phase)), Size: 5, AssignmentID: by})
}

func withArtifact(c session.Checkpoint, a session.Artifact) session.Checkpoint {
	c.Artifacts = append(slices.DeleteFunc(slices.Clone(c.Artifacts), func(b session.Artifact) bool { return b.Path == a.Path }), a)
	slices.SortFunc(c.Artifacts, func(a, b session.Artifact) int { return strings.Compare(a.Path, b.Path) })
	return c
}

// emptyCheckpoint is the first checkpoint of a session.
func emptyCheckpoint() session.Checkpoint {
	return session.Checkpoint{
		CurrentPhase: spec.ReservedPhase, Incarnation: 1, CreatedAt: now, Requirement: "why", Decisions: map[string]string{},
		Assignments: []session.CheckpointAssignment{}, Artifacts: []session.Artifact{},
	}
}

// follow stores a checkpoint after another, requires that a process that has just started
// reads the same, and returns its name and size.
func follow(t *testing.T, s *store.Store, previous spec.Digest, c session.Checkpoint) (spec.Digest, int) {
	t.Helper()
	c.Previous = previous
	name, err := s.PutCheckpoint(t.Context(), webSession, c)
	require.NoError(t, err)
	data, err := os.ReadFile(blobPath(s, name))
	require.NoError(t, err)
	for _, reader := range []*store.Store{s, later(t, s, 0)} {
		got, err := reader.Checkpoint(t.Context(), name)
		require.NoError(t, err)
		want := c
		want.Schema, want.Session = session.CheckpointSchema, webSession.Session
		require.Equal(t, want, got)
	}
	return name, len(data)
}

// TestACheckpointCostsWhatItsPhaseAdded, whatever the session has already.
func TestACheckpointCostsWhatItsPhaseAdded(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	c := emptyCheckpoint()
	head, _ := follow(t, s, "", c)
	var sizes []int
	for i := range 40 {
		c = addWork(c, fmt.Sprintf("p%02d", i))
		c.Decisions = map[string]string{"last": c.CurrentPhase}
		var size int
		head, size = follow(t, s, head, c)
		sizes = append(sizes, size)
	}
	const name = 100 // a part's name and a phase's
	require.Less(t, sizes[39]-sizes[1], 38*name, "%v", sizes)

	// Work that is sent back is not in the parts any more; an answer adds nothing.
	c.Assignments = c.Assignments[:30]
	head, whole := follow(t, s, head, c)
	require.Greater(t, whole, 30*500)
	c = addWork(c, "again")
	head, size := follow(t, s, head, c)
	require.Less(t, size, whole/5)
	c.Answers = []session.Answer{{Request: "r", By: "ann", At: now}}
	head, _ = follow(t, s, head, c)
	c.Incarnation++
	_, size = follow(t, s, head, c)
	require.Greater(t, size, whole, "a new incarnation depends on no copy that it replaces")
}

// TestPartsAddUp: files and decisions that later work changes or removes, work that is sent
// back, phases that end in any order.
func TestPartsAddUp(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 0))
		s := newStore(t)
		c := emptyCheckpoint()
		head, _ := follow(t, s, "", c)
		for i := range 15 {
			c.CreatedAt = now.Add(time.Duration(i) * time.Minute)
			c.Decisions = map[string]string{fmt.Sprint(r.IntN(4)): fmt.Sprint(i), "same": "x"}
			switch n := len(c.Assignments); {
			case n > 0 && r.IntN(6) == 0:
				at := r.IntN(n)
				c.Assignments = slices.Delete(slices.Clone(c.Assignments), at, at+1)
			case n > 0 && len(c.Artifacts) > 0 && r.IntN(4) == 0:
				c.Artifacts = slices.Delete(slices.Clone(c.Artifacts), 0, 1)
				c.Assignments = slices.Clone(c.Assignments)
				c.Assignments[n-1].Rounds++
			default:
				c = addWork(c, fmt.Sprintf("p%02d", i))
				c = withArtifact(c, session.Artifact{Path: fmt.Sprintf("shared%d", r.IntN(3)), SHA256: sha([]byte{byte(i)}), AssignmentID: id(fmt.Sprint(i))})
				if r.IntN(3) == 0 { // the team lists it before the others
					last := c.Assignments[len(c.Assignments)-1]
					c.Assignments = slices.Insert(c.Assignments[:len(c.Assignments)-1], 0, last)
				}
			}
			head, _ = follow(t, s, head, c)
		}
	}
}

// TestALostPartIsRepairedOrNamed: the blob of a part is written again from its copy. Without
// a copy the checkpoints that need the part are not listed, and those before it are.
func TestALostPartIsRepairedOrNamed(t *testing.T) {
	t.Parallel()
	model := newStore(t)
	names := chain(t, model, webSession)
	part := blobPath(model, names[1])
	sound, err := os.ReadFile(part)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(part, bytes.ToUpper(sound), 0o600))
	list, err := later(t, model, 0).Checkpoints(t.Context(), webSession)
	require.ErrorIs(t, err, session.ErrCorrupt)
	require.ErrorContains(t, err, "rewritten from the checkpoint's copy")
	require.Len(t, list, 4)
	again, err := os.ReadFile(part)
	require.NoError(t, err)
	require.Equal(t, sound, again)

	require.NoError(t, os.Remove(part))
	require.NoError(t, os.Remove(checkpointPath(model, "design")))
	list, err = later(t, model, 0).Checkpoints(t.Context(), webSession)
	require.ErrorIs(t, err, session.ErrNotFound)
	require.Equal(t, 1, strings.Count(err.Error(), "no such blob"), err.Error())
	require.Equal(t, []string{"init"}, phasesOf(list))
}
