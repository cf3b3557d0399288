package spec

import (
	"fmt"
	"math/rand"
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
