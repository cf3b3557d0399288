package spec

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sound is a team without problems, as parsed.
func sound() Team {
	persona := func(role string) Persona { return Persona{Role: role, Agent: "coder", Instructions: "Work."} }
	return Team{
		Version: 1, Name: "web",
		Personas: map[string]Persona{
			"analyst": persona("Analyst"), "backend": persona("Backend developer"),
			"tester": persona("Tester"),
		},
		Phases: []Phase{
			{Name: "design", Personas: []string{"analyst"}},
			{Name: "build", Personas: []string{"backend", "tester"}},
			{Name: "test", Personas: []string{"tester"}},
		},
	}
}

func TestPathsQuoteNamesThatAreNotPlain(t *testing.T) {
	t.Parallel()
	require.Equal(t, `$.personas.'it\'s a.b'`, FieldPath("$.personas", "it's a.b"))
	require.Equal(t, "$.personas.dev-1", FieldPath("$.personas", "dev-1"))
}

func TestTooManyAssignments(t *testing.T) {
	t.Parallel()
	tm := sound()
	tm.Phases = nil
	for i := range 11 {
		p := Phase{Name: fmt.Sprintf("p%d", i)}
		for j := range 50 {
			name := fmt.Sprintf("dev%d", j)
			tm.Personas[name] = tm.Personas["tester"]
			p.Personas = append(p.Personas, name)
		}
		tm.Phases = append(tm.Phases, p)
	}
	tm.Phases[0].Personas = append(tm.Phases[0].Personas, "analyst", "backend", "tester")
	tm.Phases = append(tm.Phases, Phase{Name: "ship", Deliver: &Deliver{To: "github"}})
	require.Equal(t, []Problem{{"$.phases", "have 554 assignments (personas in phases) together; at most 500 are allowed in " +
		"one session"}}, tm.Problems())
}

func TestTooMuchInAll(t *testing.T) {
	t.Parallel()
	tm := sound()
	for i := range tm.Phases {
		for j := range 190 {
			tm.Phases[i].Produces = append(tm.Phases[i].Produces, fmt.Sprintf("%03d%s", j, strings.Repeat("x", 500)))
		}
	}
	problems := tm.Problems()
	require.Len(t, problems, 1)
	require.Equal(t, "$", problems[0].Path)
	require.Contains(t, problems[0].Message, "is too large for a session")

	tm = sound()
	tm.Help.Jira = &HelpJira{Project: "MD", Fields: map[string]any{"environment": strings.Repeat("x", 17000)}}
	problems = tm.Problems()
	require.Len(t, problems, 1)
	require.Equal(t, "$.help.jira.fields", problems[0].Path)
	require.Contains(t, problems[0].Message, "bytes as JSON")
}

// TestEveryCycleIsFound: a graph has a problem exactly if it cannot be ordered,
// and the circle that the problem names is one.
func TestEveryCycleIsFound(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewSource(3))
	cyclic := 0
	for range 500 {
		tm := sound()
		tm.Phases = nil
		n := 2 + random.Intn(6)
		for i := range n {
			p := Phase{Name: fmt.Sprintf("p%d", i), Needs: []string{}, Personas: []string{"analyst", "backend", "tester"}}
			for j := range n {
				if j != i && random.Intn(5) == 0 {
					p.Needs = append(p.Needs, fmt.Sprintf("p%d", j))
				}
			}
			tm.Phases = append(tm.Phases, p)
		}
		problems := tm.Problems()
		require.Equal(t, len(tm.Topological()) < n, len(problems) > 0)
		for _, f := range problems {
			cyclic++
			_, rest, _ := strings.Cut(f.Message, "circle: ")
			names := strings.Split(strings.SplitN(rest, ";", 2)[0], " → ")
			require.Equal(t, names[0], names[len(names)-1])
			for i := range names[1:] {
				p, _ := tm.Phase(names[i])
				require.Contains(t, p.Needs, names[i+1])
			}
		}
	}
	require.Positive(t, cyclic)
}

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
