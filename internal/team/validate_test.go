package team

import (
	"fmt"
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sound is a team without faults, as parsed.
func sound() Team {
	persona := func(role string) Persona { return Persona{Role: role, Agent: "coder", Instructions: "Work."} }
	return Team{
		Version: 1, Name: "web",
		Personas: map[string]Persona{"analyst": persona("Analyst"), "backend": persona("Backend developer"), "tester": persona("Tester")},
		Phases: []Phase{
			{Name: "design", Personas: []string{"analyst"}},
			{Name: "build", Personas: []string{"backend", "tester"}},
			{Name: "test", Personas: []string{"tester"}},
		},
	}
}

func TestSoundTeamHasNoFaults(t *testing.T) {
	t.Parallel()
	require.Empty(t, sound().Faults())
	require.Empty(t, sound().Resolved().Faults(), "nor has it any once resolved")
	patient := sound()
	patient.Help.GiveUpAfter = Duration(48 * time.Hour)
	require.Empty(t, patient.Faults(), "to ask is the default")
}

func TestFaults(t *testing.T) {
	t.Parallel()
	persona := func(change func(*Persona)) func(*Team) {
		return func(tm *Team) {
			p := tm.Personas["tester"]
			change(&p)
			tm.Personas["tester"] = p
		}
	}
	phase := func(i int, change func(*Phase)) func(*Team) {
		return func(tm *Team) { change(&tm.Phases[i]) }
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
		"version":         {func(tm *Team) { tm.Version = 3 }, "$.version", "is 3, but 1 is the only version"},
		"no name":         {func(tm *Team) { tm.Name = "" }, "$.name", "is missing"},
		"description":     {func(tm *Team) { tm.Description = strings.Repeat("x", 5000) }, "$.description", "has 5000 bytes; at most 4096"},
		"blank role":      {persona(func(p *Persona) { p.Role = " \n" }), "$.personas.tester.role", "is missing"},
		"long role":       {persona(func(p *Persona) { p.Role = strings.Repeat("x", 201) }), "$.personas.tester.role", "belongs into instructions"},
		"agent":           {persona(func(p *Persona) { p.Agent = "../x" }), "$.personas.tester.agent", "is not a usable name"},
		"blank text":      {persona(func(p *Persona) { p.Instructions = "\n" }), "$.personas.tester.instructions", "is missing"},
		"long text":       {persona(func(p *Persona) { p.Instructions = strings.Repeat("x", MaxInstructions+1) }), "$.personas.tester.instructions", "at most 262144"},
		"two texts":       {persona(func(p *Persona) { p.InstructionsFile = "x.md" }), "$.personas.tester.instructions_file", "keep one of them"},
		"attempts":        {persona(func(p *Persona) { p.Attempts = 21 }), "$.personas.tester.attempts", "between 1 and 20"},
		"attempts below":  {persona(func(p *Persona) { p.Attempts = -1 }), "$.personas.tester.attempts", "is -1"},
		"turns":           {persona(func(p *Persona) { p.MaxTurns = 1001 }), "$.personas.tester.max_turns", "between 1 and 1000"},
		"timeout":         {persona(func(p *Persona) { p.Timeout = Duration(time.Microsecond) }), "$.personas.tester.timeout", "between 1s and 168h"},
		"timeout below":   {persona(func(p *Persona) { p.Timeout = -1 }), "$.personas.tester.timeout", "between"},
		"tokens":          {persona(func(p *Persona) { p.Budget.Tokens = -1 }), "$.personas.tester.budget.tokens", "is -1"},
		"usd":             {persona(func(p *Persona) { p.Budget.USD = math.MaxInt64 }), "$.personas.tester.budget.usd", "at most 1000000"},
		"persona's check": {persona(func(p *Persona) { p.Checks = []string{"ok", "go test"} }), "$.personas.tester.checks[1]", "is not a usable name"},
		"persona's glob":  {persona(func(p *Persona) { p.Produces = []string{"/x"} }), "$.personas.tester.produces[0]", "is absolute"},
		"many globs":      {persona(func(p *Persona) { p.Produces = slices.Repeat([]string{"x"}, 201) }), "$.personas.tester.produces", "has 201 entries"},
		"no phase name":   {phase(1, func(p *Phase) { p.Name = "" }), "$.phases[1].name", "is missing"},
		"reserved":        {phase(1, func(p *Phase) { p.Name = "Init" }), "$.phases[1].name", "the checkpoint before the first phase"},
		"reserved persona": {func(tm *Team) {
			tm.Personas["Seal"] = tm.Personas["tester"]
			tm.Phases[0].Personas = append(tm.Phases[0].Personas, "Seal")
		}, "$.personas.Seal", "reserved for the step that merges a phase"},
		"same phase":       {phase(2, func(p *Phase) { p.Name = "build" }), "$.phases[2].name", "an earlier phase, too"},
		"phase's case":     {phase(2, func(p *Phase) { p.Name = "BUILD" }), "$.phases[2].name", `from the phase "build" only by case`},
		"nobody":           {phase(0, func(p *Phase) { p.Personas = nil }), "$.phases[0].personas", "is missing"},
		"unknown persona":  {phase(0, func(p *Phase) { p.Personas = []string{"analist"} }), "$.phases[0].personas[0]", `did you mean "analyst"?`},
		"stranger":         {phase(0, func(p *Phase) { p.Personas = []string{"zoe"} }), "$.phases[0].personas[0]", "the team has analyst, backend, tester"},
		"twice":            {phase(1, func(p *Phase) { p.Personas = append(p.Personas, "backend") }), "$.phases[1].personas[2]", "already works in this phase"},
		"crowd":            {phase(1, func(p *Phase) { p.Personas = slices.Repeat([]string{"backend", "tester"}, 33) }), "$.phases[1].personas", "at most 64"},
		"order":            {phase(1, func(p *Phase) { p.Order = "paralle" }), "$.phases[1].order", `did you mean "parallel"?`},
		"integrator":       {phase(1, func(p *Phase) { p.Integrator = "analyst" }), "$.phases[1].integrator", "choose one of backend, tester"},
		"unknown need":     {phase(2, func(p *Phase) { p.Needs = []string{"desing"} }), "$.phases[2].needs[0]", `did you mean "design"?`},
		"self":             {phase(2, func(p *Phase) { p.Needs = []string{"test"} }), "$.phases[2].needs[0]", "cannot need itself"},
		"need twice":       {phase(2, func(p *Phase) { p.Needs = []string{"build", "build"} }), "$.phases[2].needs[1]", "a second time"},
		"cycle":            {phase(0, func(p *Phase) { p.Needs = []string{"test"} }), "$.phases[0].needs[0]", "design → test → build → design"},
		"back to nothing":  {phase(2, func(p *Phase) { p.SendsBack = &SendsBack{} }), "$.phases[2].sends_back.to", "is missing; name the phase that is to do its work again; one of design, build"},
		"back to unknown":  {phase(2, func(p *Phase) { p.SendsBack = &SendsBack{To: "biuld"} }), "$.phases[2].sends_back.to", `unknown phase "biuld"; did you mean "build"?`},
		"back to itself":   {phase(2, func(p *Phase) { p.SendsBack = &SendsBack{To: "test"} }), "$.phases[2].sends_back.to", "cannot send its own work back, which it can mend itself; choose one of design, build"},
		"back to a later":  {phase(1, func(p *Phase) { p.SendsBack = &SendsBack{To: "test"} }), "$.phases[1].sends_back.to", `"build" does not build on "test", so it cannot send its work back; choose one of design`},
		"back from a root": {phase(0, func(p *Phase) { p.SendsBack = &SendsBack{To: "build"} }), "$.phases[0].sends_back", `has no work to send back: "design" builds on no phase`},
		"back beside": {func(tm *Team) {
			tm.Phases[2].Needs, tm.Phases[2].SendsBack = []string{"design"}, &SendsBack{To: "build"}
		}, "$.phases[2].sends_back.to", "choose one of design"},
		"back too often":   {phase(2, func(p *Phase) { p.SendsBack = &SendsBack{To: "design", Times: 21} }), "$.phases[2].sends_back.times", "is 21; it must be between 1 and 20"},
		"back in a circle": {func(tm *Team) { tm.Phases[0].Needs, tm.Phases[2].SendsBack = []string{"test"}, &SendsBack{To: "build"} }, "$.phases[0].needs[0]", "design → test → build → design"},
		"rounds":           {func(tm *Team) { tm.Retry.Rounds = 11 }, "$.retry.rounds", "between 1 and 10"},
		"wait":             {func(tm *Team) { tm.Retry.Initial = Duration(48 * time.Hour) }, "$.retry.initial", "between 1ms and 24h"},
		"waits":            {func(tm *Team) { tm.Retry.RoundInitial, tm.Retry.RoundMax = 4e9, 3e9 }, "$.retry.round_max", "is 3s, less than round_initial (4s)"},
		"warnings":         {func(tm *Team) { tm.Budget = Budget{Tokens: 1, WarnAt: []float64{0.5, 0.5}} }, "$.budget.warn_at[1]", "ascending"},
		"not a fraction":   {func(tm *Team) { tm.Budget = Budget{Tokens: 1, WarnAt: []float64{math.NaN()}} }, "$.budget.warn_at[0]", "between 0 and 1"},
		"nothing to warn":  {func(tm *Team) { tm.Budget.WarnAt = []float64{0.5} }, "$.budget.warn_at", "no budget to warn about"},
		"on_exceeded":      {func(tm *Team) { tm.Budget.OnExceeded = "aks" }, "$.budget.on_exceeded", "did you mean"},
		"explode":          {func(tm *Team) { tm.Budget.OnExceeded = "explode" }, "$.budget.on_exceeded", `is "explode"`},
		"help else":        {func(tm *Team) { tm.Help.Mode = "pray" }, "$.help.mode", `is "pray"`},
		"help slip":        {func(tm *Team) { tm.Help.Mode = "asks" }, "$.help.mode", `did you mean "ask"?`},
		"no project":       {jira(func(j *HelpJira) { j.Project = "" }), "$.help.jira.project", "is missing"},
		"project's case":   {jira(func(j *HelpJira) { j.Project = "md" }), "$.help.jira.project", `did you mean "MD"?`},
		"ticket's key":     {jira(func(j *HelpJira) { j.Project = "MD-12" }), "$.help.jira.project", `did you mean "MD"?`},
		"project's name":   {jira(func(j *HelpJira) { j.Project = "Ma\"estro" }), "$.help.jira.project", "no project's key"},
		"long project":     {jira(func(j *HelpJira) { j.Project = strings.Repeat("M", 256) }), "$.help.jira.project", "at most 255"},
		"ticket's type":    {jira(func(j *HelpJira) { j.Type = "Bug\nfix" }), "$.help.jira.type", "no name in Jira has"},
		"label":            {jira(func(j *HelpJira) { j.Labels = []string{"needs help"} }), "$.help.jira.labels[0]", `write "needs-help"`},
		"own label":        {jira(func(j *HelpJira) { j.Labels = []string{"x", "Maestro-1"} }), "$.help.jira.labels[1]", "begins with maestro-"},
		"label twice":      {jira(func(j *HelpJira) { j.Labels = []string{"x", "x"} }), "$.help.jira.labels[1]", "a second time"},
		"component":        {jira(func(j *HelpJira) { j.Components = []string{" "} }), "$.help.jira.components[0]", "is empty"},
		"long component":   {jira(func(j *HelpJira) { j.Components = []string{strings.Repeat("ä", 256)} }), "$.help.jira.components[0]", "has 256 characters"},
		"category":         {jira(func(j *HelpJira) { j.Priorities = map[Category]string{"timeouts": "High"} }), "$.help.jira.priorities.timeouts", `did you mean "timeout"?`},
		"priority":         {jira(func(j *HelpJira) { j.Priorities = map[Category]string{Auth: ""} }), "$.help.jira.priorities.auth", "is empty"},
		"field":            {jira(func(j *HelpJira) { j.Fields = map[string]any{"Story Points": 3.0} }), "$.help.jira.fields.'Story Points'", "like customfield_10010"},
		"own field":        {jira(func(j *HelpJira) { j.Fields = map[string]any{"summary": "x"} }), "$.help.jira.fields.summary", "Maestro writes itself"},
		"other field":      {jira(func(j *HelpJira) { j.Fields = map[string]any{"issuetype": "x"} }), "$.help.jira.fields.issuetype", "help.jira.type"},
		"large fields":     {jira(func(j *HelpJira) { j.Fields = map[string]any{"environment": strings.Repeat("x", 17000)} }), "$.help.jira.fields", "bytes as JSON"},
		"give up at once":  {func(tm *Team) { tm.Help = Help{Mode: HelpAsk, GiveUpAfter: 1} }, "$.help.give_up_after", "between 1s and 8760h"},
		"patience":         {func(tm *Team) { p := Duration(-1); tm.Retry.Patience = &p }, "$.retry.patience", "between"},
		"on_outage":        {func(tm *Team) { tm.Retry.OnOutage = "wiat" }, "$.retry.on_outage", "did you mean"},
		"no outage":        {func(tm *Team) { tm.Retry.Patience, tm.Retry.OnOutage = new(Duration), OutageFail }, "$.retry.on_outage", "nothing to decide"},
		"give up":          {func(tm *Team) { tm.Help, tm.Retry.OnOutage = Help{Mode: HelpFail, GiveUpAfter: 1}, OutageFail }, "$.help.give_up_after", "nothing to end"},
		"ignore":           {func(tm *Team) { tm.Ignore = []string{"*.log", "*.log"} }, "$.ignore[1]", "a second time"},
		"no phases":        {func(tm *Team) { tm.Phases = nil }, "$.phases", "is missing"},
		"no personas":      {func(tm *Team) { tm.Personas = nil }, "$.personas", "is missing"},
		"unused":           {func(tm *Team) { tm.Phases = tm.Phases[1:]; tm.Phases[0].Needs = nil }, "$.personas.analyst", "is used by no phase"},
		"many phases":      {func(tm *Team) { tm.Phases = slices.Repeat(tm.Phases, 100) }, "$.phases", "has 300 phases; at most 200"},
		"persona's letter": {func(tm *Team) { tm.Personas["Tester"] = tm.Personas["tester"]; tm.Phases[1].Personas[1] = "Tester" }, "$.personas.tester", `differs from "Tester" only by case`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tm := sound()
			tt.change(&tm)
			faults := tm.Faults()
			require.Len(t, faults, 1, "a fault is said once, and what follows from it is not")
			require.Equal(t, tt.path, faults[0].Path)
			require.Contains(t, faults[0].Message, tt.message)
		})
	}
}

func TestPersonaNamesThatNoPathCanHold(t *testing.T) {
	t.Parallel()
	tm := sound()
	tm.Personas["it's a.b"] = tm.Personas["tester"]
	tm.Phases[1].Personas[1] = "it's a.b"
	require.Equal(t, `$.personas.'it\'s a.b'`, tm.Faults()[0].Path)
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
	require.Equal(t, []Fault{{"$.phases", "have 553 assignments (personas in phases) together; at most 500 are allowed in one session"}}, tm.Faults())
}

func TestTooMuchInAll(t *testing.T) {
	t.Parallel()
	tm := sound()
	for i := range tm.Phases {
		for j := range 190 {
			tm.Phases[i].Produces = append(tm.Phases[i].Produces, fmt.Sprintf("%03d%s", j, strings.Repeat("x", 500)))
		}
	}
	faults := tm.Faults()
	require.Len(t, faults, 1)
	require.Equal(t, "$", faults[0].Path)
	require.Contains(t, faults[0].Message, "is too large for a session")
}

// TestEveryCycleIsFound: a graph has a fault exactly if it cannot be ordered,
// and the circle that the fault names is one.
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
		faults := tm.Faults()
		require.Equal(t, len(tm.Topological()) < n, len(faults) > 0)
		for _, f := range faults {
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
