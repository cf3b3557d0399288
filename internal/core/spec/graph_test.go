package spec

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGraphsHoldTogether: whatever the graph, its order respects every need, its
// ancestors are closed, and every assignment is listed once.
func TestGraphsHoldTogether(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewSource(2))
	for range 300 {
		tm := randomTeam(random)
		order := tm.Topological()
		require.Len(t, order, len(tm.Phases))
		total := 0
		for _, p := range tm.Phases {
			total += len(p.Personas)
			above := tm.Ancestors(p.Name)
			require.NotContains(t, above, p.Name)
			for _, need := range p.Needs {
				require.Less(t, slices.Index(order, need), slices.Index(order, p.Name))
				require.Contains(t, above, need)
				for _, further := range tm.Ancestors(need) {
					require.Contains(t, above, further)
				}
			}
		}
		ids := tm.Assignments()
		require.Len(t, ids, total)
		seen := map[AssignmentID]bool{}
		for _, id := range ids {
			require.False(t, seen[id])
			seen[id] = true
		}
	}
}

// TestOrderIsTheFilesWhereTheGraphLeavesAChoice: folding must not depend on
// anything but the file.
func TestOrderIsTheFilesWhereTheGraphLeavesAChoice(t *testing.T) {
	t.Parallel()
	tm := Team{Phases: []Phase{
		{Name: "late", Needs: []string{"first"}},
		{Name: "free", Needs: []string{}},
		{Name: "first", Needs: []string{}},
		{Name: "last", Needs: []string{"late", "free"}},
	}}
	require.Equal(t, []string{"free", "first", "late", "last"}, tm.Topological())
}

func TestCyclesDoNotHangAnyone(t *testing.T) {
	t.Parallel()
	tm := Team{Phases: []Phase{
		{Name: "ok", Needs: []string{}},
		{Name: "a", Needs: []string{"b"}},
		{Name: "b", Needs: []string{"a"}},
		{Name: "behind", Needs: []string{"b"}},
		{Name: "self", Needs: []string{"self"}},
	}}
	require.Equal(t, []string{"ok"}, tm.Topological())
	require.Empty(t, tm.Ancestors("a"), "only what is in the order is an ancestor")
}
