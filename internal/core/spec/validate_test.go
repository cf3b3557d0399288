package spec

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
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

func TestSoundTeamHasNoFaults(t *testing.T) {
	t.Parallel()
	require.Empty(t, sound().Problems())
	require.Empty(t, sound().Resolved().Problems(), "nor has it any once resolved")
	patient := sound()
	patient.Help.GiveUpAfter = textfmt.Duration(48 * time.Hour)
	require.Empty(t, patient.Problems(), "to ask is the default")
}

func TestFaults(t *testing.T) {
	t.Parallel()
	phase := func(i int, change func(*Phase)) func(*Team) {
		return func(tm *Team) { change(&tm.Phases[i]) }
	}
	delivery := func(change func(*Phase)) func(*Team) {
		return func(tm *Team) {
			tm.Phases = append(tm.Phases, Phase{Name: "ship", Deliver: &Deliver{To: "github"}})
			change(&tm.Phases[3])
		}
	}
	jira := func(change func(*HelpJira)) func(*Team) {
		return func(tm *Team) {
			tm.Help.Jira = &HelpJira{Project: "MD"}
			change(tm.Help.Jira)
		}
	}
	for name, tt := range map[string]struct {
		change        func(*Team)
		path, message string
	}{
		"reserved persona": {func(tm *Team) {
			tm.Personas["Merge"] = tm.Personas["tester"]
			tm.Phases[0].Personas = append(tm.Phases[0].Personas, "Merge")
		}, "$.personas.Merge", "reserved for the step that merges a phase"},
		"cycle": {
			phase(0, func(p *Phase) { p.Needs = []string{"test"} }), "$.phases[0].needs[0]",
			"design → test → build → design",
		},
		"back to itself": {
			phase(2, func(p *Phase) { p.SendsBack = &SendsBack{To: "test"} }), "$.phases[2].sends_back.to",
			"cannot send its own work back, because it can correct that itself; choose one of design, build",
		},
		"back to a later": {
			phase(1, func(p *Phase) { p.SendsBack = &SendsBack{To: "test"} }), "$.phases[1].sends_back.to",
			`"build" does not build on "test", so it cannot send its work back; choose one of design`,
		},
		"back from a root": {
			phase(0, func(p *Phase) { p.SendsBack = &SendsBack{To: "build"} }), "$.phases[0].sends_back",
			`has no work to send back: "design" builds on no phase`,
		},
		"back beside": {func(tm *Team) {
			tm.Phases[2].Needs, tm.Phases[2].SendsBack = []string{"design"}, &SendsBack{To: "build"}
		}, "$.phases[2].sends_back.to", "choose one of design"},
		"back to a delivery": {
			func(tm *Team) { shipped(tm); tm.Phases[2].Deliver.Fix = "first" }, "$.phases[2].deliver.fix",
			`"first" delivers the work of other phases, so there is none to send back to it; choose one of design`,
		},
		"fix beside": {
			delivery(func(p *Phase) { p.Needs, p.Deliver.Fix = []string{"build"}, "test" }), "$.phases[3].deliver.fix",
			`"ship" does not build on "test", so it cannot send its work back; choose one of design, build`,
		},
		"delivery with integrator": {delivery(func(p *Phase) { p.Integrator = "analyst" }), "$.phases[3].integrator", "leave it out"},
		"delivery with a budget":   {delivery(func(p *Phase) { p.Budget.Tokens = 5 }), "$.phases[3].budget", "calls no model"},
		"waits": {
			func(tm *Team) { tm.Retry.RoundInitial, tm.Retry.RoundMax = 4e9, 3e9 }, "$.retry.round_max",
			"is 3s, less than round_initial (4s)",
		},
		"nothing to warn": {func(tm *Team) { tm.Budget.WarnAt = []float64{0.5} }, "$.budget.warn_at", "no budget to warn about"},
		"empty range":     {phase(1, func(p *Phase) { p.Produces = []string{"[z-a]"} }), "$.phases[1].produces[0]", "write a-z"},
		"large fields": {
			jira(func(j *HelpJira) { j.Fields = map[string]any{"environment": strings.Repeat("x", 17000)} }),
			"$.help.jira.fields", "bytes as JSON",
		},
		"no outage": {
			func(tm *Team) { tm.Retry.Patience, tm.Retry.OnOutage = new(textfmt.Duration), OutageFail },
			"$.retry.on_outage", "nothing to decide",
		},
		"give up": {
			func(tm *Team) { tm.Help, tm.Retry.OnOutage = Help{Mode: HelpFail, GiveUpAfter: 1}, OutageFail },
			"$.help.give_up_after", "nothing waits that long",
		},
		"persona's letter": {
			func(tm *Team) { tm.Personas["Tester"] = tm.Personas["tester"]; tm.Phases[1].Personas[1] = "Tester" },
			"$.personas.tester", `differs from "Tester" only by case`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tm := sound()
			tt.change(&tm)
			problems := tm.Problems()
			require.Len(t, problems, 1, "a problem is said once, and what follows from it is not")
			require.Equal(t, tt.path, problems[0].Path)
			require.Contains(t, problems[0].Message, tt.message)
		})
	}
}

// shipped makes the team design, and deliver that twice.
func shipped(tm *Team) {
	tm.Personas = map[string]Persona{"analyst": tm.Personas["analyst"]}
	tm.Phases = append(tm.Phases[:1:1], Phase{Name: "first", Deliver: &Deliver{To: "github"}},
		Phase{Name: "second", Deliver: &Deliver{To: "github", Fix: "design"}})
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
