package activities

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// TestAPhaseAddsToACheckpointWhatMergingAllWouldGive draws teams, and work that edits, removes
// and disagrees.
func TestAPhaseAddsToACheckpointWhatMergingAllWouldGive(t *testing.T) {
	t.Parallel()
	st, err := store.Create(t.TempDir(), store.Options{Clock: time.Now})
	require.NoError(t, err)
	workspace, err := st.Content.PutManifest(t.Context(), cas.Manifest{"a": entry(0), "d/x": entry(0)})
	require.NoError(t, err)
	conflicting := 0
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 0))
		team := drawTeam(r)
		base := mergeBase{st.Content, team, workspace, map[string]string{"given": "yes"}}
		done := map[spec.AssignmentID]session.CheckpointAssignment{}
		var c session.Checkpoint
		_, err := base.fill(t.Context(), &c, done)
		require.NoError(t, err)
		for _, phase := range team.Topological() {
			p, _ := team.Phase(phase)
			for _, persona := range p.Personas {
				delta, err := st.Content.PutDelta(t.Context(), drawDelta(r))
				require.NoError(t, err)
				a := session.CheckpointAssignment{AssignmentID: spec.AssignmentID{Phase: phase, Persona: persona}}
				a.Usage = cost.Usage{InputTokens: 1}
				a.Work = session.Work{Delta: delta, Decisions: map[string]string{fmt.Sprint("d", r.IntN(3)): fmt.Sprint(r.IntN(2))}}
				done[a.AssignmentID] = a
			}
			decided, _ := session.MergeDecisions(base.given, session.Steps(team, append(team.Ancestors(phase), phase), done))
			require.Equal(t, decided, base.decisions(c, phase, done), "seed %d, before %s", seed, phase)
			var all session.Checkpoint
			expected, err := base.fill(t.Context(), &all, done)
			require.NoError(t, err)
			conflicts, err := base.extend(t.Context(), &c, phase, done)
			require.NoError(t, err)
			require.Equal(t, all, c, "seed %d, after %s", seed, phase)
			require.Equal(t, expected, conflicts, "seed %d, after %s", seed, phase)
			conflicting += min(len(conflicts), 1)
		}
	}
	require.Greater(t, conflicting, 50)
}

func entry(content int) cas.Entry {
	return cas.Entry{SHA256: cas.DigestOf([]byte{byte(content)}), Size: 1}
}

// drawTeam draws phases that build on some of those before them.
func drawTeam(r *rand.Rand) spec.Team {
	team := spec.Team{Version: 1, Name: "t", Personas: map[string]spec.Persona{"one": {Agent: "a"}, "two": {Agent: "a"}}}
	for i := range 2 + r.IntN(4) {
		p := spec.Phase{Name: fmt.Sprint("p", i), Personas: []string{"one", "two"}[:1+r.IntN(2)], Needs: []string{}}
		if r.IntN(2) == 0 {
			p.Order = spec.OrderSequence
		}
		for before := range i {
			if r.IntN(3) > 0 {
				p.Needs = append(p.Needs, fmt.Sprint("p", before))
			}
		}
		team.Phases = append(team.Phases, p)
	}
	return team.Resolved()
}

func drawDelta(r *rand.Rand) cas.Delta {
	d := cas.Delta{}
	for _, paths := range [][]string{{"a"}, {"b"}, {"d", "d/x", "d/y/z"}} {
		if path := paths[r.IntN(len(paths))]; r.IntN(2) == 0 {
			d[path] = cas.Change{Entry: entry(r.IntN(3))}
			if r.IntN(3) == 0 {
				d[path] = cas.Change{Deleted: true}
			}
		}
	}
	return d
}
