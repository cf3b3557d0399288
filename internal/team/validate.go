package team

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Fault is something wrong in a file that a person wrote.
type Fault struct {
	// Path says where: a YAMLPath like $.phases[2].personas[0]. It may name a
	// field that the file leaves out.
	Path string
	// Message says what is wrong there and what would be right.
	Message string
}

// What a team file may ask for. The bounds are far above what makes sense, so
// that whoever meets one has made a mistake, and low enough that a session stays
// within the limits of a Temporal history.
const (
	// MaxInstructions bounds a persona's instructions, in bytes.
	MaxInstructions = 256 * 1024

	maxAttempts     = 20
	maxRounds       = 10
	maxSendsBack    = 20
	maxTurns        = 1000
	maxPersonas     = 256
	maxPhases       = 200
	maxCrew         = 64 // personas in one phase
	maxAssignments  = 500
	maxListed       = 200 // entries of any other list
	maxRole         = 200
	maxDescription  = 4 * 1024
	maxOutline      = 256 * 1024
	maxBudgetTokens = int64(maxReported)
	maxBudgetUSD    = USD(1_000_000_000_000_000) // a million dollars
	minWait         = Duration(time.Millisecond)
	maxWait         = Duration(24 * time.Hour)
	minTimeout      = Duration(time.Second)
	maxTimeout      = Duration(7 * 24 * time.Hour)
)

// Faults returns what is wrong with the team as it was parsed, before
// [Team.Resolved] fills in what the file leaves out: personas first, by name,
// then phases and the rest. A team without faults can run, given workers that
// have its agents and checks. What follows only from another fault is left out.
func (t Team) Faults() []Fault {
	v := &validator{team: t}
	v.head()
	if len(t.Personas) == 0 {
		v.add("$.personas", "is missing; a team has at least one persona, like `dev: {role: Developer, agent: coder, instructions: ...}`")
	} else {
		v.personas()
	}
	switch {
	case len(t.Phases) == 0:
		v.add("$.phases", "is missing; a team has at least one phase, like `- {name: build, personas: [dev]}`")
	case len(t.Phases) > maxPhases:
		v.add("$.phases", "has %d phases; at most %d are allowed", len(t.Phases), maxPhases)
	default:
		v.phases()
	}
	v.retry()
	v.budget()
	v.help()
	v.list("$.ignore", t.Ignore, checkIgnore)
	v.size()
	return v.faults
}

// FieldPath is the YAMLPath of a mapping's entry, its key quoted where a plain
// one would be misread.
func FieldPath(parent, key string) string {
	plain := key != "" && !strings.ContainsFunc(key, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
	if plain {
		return parent + "." + key
	}
	return parent + ".'" + strings.ReplaceAll(key, "'", `\'`) + "'"
}

// ItemPath is the YAMLPath of a list's entry.
func ItemPath(parent string, index int) string { return fmt.Sprintf("%s[%d]", parent, index) }

type validator struct {
	team   Team
	faults []Fault
}

func (v *validator) add(path, format string, args ...any) {
	v.faults = append(v.faults, Fault{Path: path, Message: fmt.Sprintf(format, args...)})
}

// check adds err, if there is one, as a fault.
func (v *validator) check(path string, err error) {
	if err != nil {
		v.add(path, "%s", err.Error())
	}
}

func (v *validator) head() {
	t := v.team
	switch t.Version {
	case 1:
	case 0:
		v.add("$.version", "is missing; write `version: 1`")
	default:
		v.add("$.version", "is %d, but 1 is the only version of the format; write `version: 1`", t.Version)
	}
	if t.Name == "" {
		v.add("$.name", "is missing; give the team a name, like web-service")
	} else {
		v.check("$.name", CheckName(t.Name))
	}
	if len(t.Description) > maxDescription {
		v.add("$.description", "has %d bytes; at most %d are allowed", len(t.Description), maxDescription)
	}
}

func (v *validator) personas() {
	if n := len(v.team.Personas); n > maxPersonas {
		v.add("$.personas", "has %d personas; at most %d are allowed", n, maxPersonas)
		return
	}
	folded := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(v.team.Personas)) {
		path := FieldPath("$.personas", name)
		if err := CheckName(name); err != nil {
			v.check(path, err)
		} else if strings.EqualFold(name, ReservedPersona) {
			v.add(path, "%q is reserved for the step that merges a phase; choose another name", name)
		} else if other, ok := folded[strings.ToLower(name)]; ok {
			v.add(path, "differs from %q only by case, which file names may not tell apart; rename one", other)
		}
		folded[strings.ToLower(name)] = name
		v.persona(path, v.team.Personas[name])
	}
	v.unused()
}

func (v *validator) persona(path string, p Persona) {
	switch {
	case strings.TrimSpace(p.Role) == "":
		v.add(path+".role", "is missing; say what the persona is, like `role: Test engineer`")
	case len(p.Role) > maxRole:
		v.add(path+".role", "has %d bytes; at most %d are allowed: the rest belongs into instructions", len(p.Role), maxRole)
	}
	if p.Agent == "" {
		v.add(path+".agent", "is missing; name the worker-file agent that does the persona's work")
	} else {
		v.check(path+".agent", CheckName(p.Agent))
	}
	v.instructions(path, p)
	v.count(path+".attempts", p.Attempts, maxAttempts)
	v.count(path+".max_turns", p.MaxTurns, maxTurns)
	v.duration(path+".timeout", p.Timeout, minTimeout, maxTimeout)
	v.amount(path+".budget", p.Budget)
	v.list(path+".produces", p.Produces, CheckPattern)
	v.list(path+".checks", p.Checks, CheckName)
}

func (v *validator) instructions(path string, p Persona) {
	switch {
	case p.Instructions != "" && p.InstructionsFile != "":
		v.add(path+".instructions_file", "stands beside instructions; keep one of them")
	case strings.TrimSpace(p.Instructions) == "" && p.InstructionsFile == "":
		v.add(path+".instructions", "is missing; tell the persona what to do, here or in an instructions_file")
	case len(p.Instructions) > MaxInstructions:
		v.add(path+".instructions", "has %d bytes; at most %d are allowed", len(p.Instructions), MaxInstructions)
	}
}

// unused faults personas that no phase uses. It says nothing where a phase's
// personas are missing or unknown: that fault is then the likely cause.
func (v *validator) unused() {
	used := map[string]bool{}
	for _, phase := range v.team.Phases {
		if len(phase.Personas) == 0 {
			return
		}
		for _, name := range phase.Personas {
			if _, ok := v.team.Personas[name]; !ok {
				return
			}
			used[name] = true
		}
	}
	if len(v.team.Phases) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(v.team.Personas)) {
		if !used[name] {
			v.add(FieldPath("$.personas", name), "is used by no phase; add it to a phase's personas, or leave it out")
		}
	}
}

func (v *validator) retry() {
	r := v.team.Retry
	v.count("$.retry.attempts", r.Attempts, maxAttempts)
	v.count("$.retry.rounds", r.Rounds, maxRounds)
	v.waits("initial", r.Initial, "max", r.Max)
	v.waits("round_initial", r.RoundInitial, "round_max", r.RoundMax)
	if r.Patience != nil && *r.Patience != 0 {
		v.duration("$.retry.patience", *r.Patience, minWait, maxGiveUp)
	}
	switch r.OnOutage {
	case "", OutageWait, OutageFail:
	default:
		v.add("$.retry.on_outage", "is %q; write wait or fail%s", Shorten(string(r.OnOutage), 80),
			DidYouMean(string(r.OnOutage), []string{string(OutageWait), string(OutageFail)}))
	}
	if r.WaitsOut() == 0 && r.OnOutage != "" {
		v.add("$.retry.on_outage", "has nothing to decide: with `patience: 0s` no outage is waited out; leave it out")
	}
}

func (v *validator) waits(firstField string, first Duration, capField string, most Duration) {
	v.duration("$.retry."+firstField, first, minWait, maxWait)
	v.duration("$.retry."+capField, most, minWait, maxWait)
	if most > 0 && first > most {
		v.add("$.retry."+capField, "is %s, less than %s (%s); it is the longest wait, so it cannot be below the first", most, firstField, first)
	}
}

func (v *validator) budget() {
	b := v.team.Budget
	v.amount("$.budget", b.Cap())
	v.amount("$.budget.daily", b.Daily)
	for i, p := range v.team.Phases {
		v.amount(ItemPath("$.phases", i)+".budget", p.Budget)
	}
	last := 0.0
	for i, at := range b.WarnAt {
		path := ItemPath("$.budget.warn_at", i)
		switch {
		case !(at > 0 && at < 1): // NaN, too
			v.add(path, "is %v; it is a fraction of the budget, between 0 and 1, like 0.8", at)
		case at <= last:
			v.add(path, "is %v after %v; list the fractions in ascending order", at, last)
		}
		last = math.Max(last, at)
	}
	if len(b.WarnAt) > 0 && !v.team.Capped() {
		v.add("$.budget.warn_at", "has no budget to warn about; set tokens or usd beside it")
	}
	switch b.OnExceeded {
	case "", OnExceededStop, OnExceededAsk, OnExceededDegrade:
	default:
		v.add("$.budget.on_exceeded", "is %q; write stop, ask or degrade%s", Shorten(string(b.OnExceeded), 80),
			DidYouMean(string(b.OnExceeded), []string{string(OnExceededStop), string(OnExceededAsk), string(OnExceededDegrade)}))
	}
}

// size faults teams that are fine in every part and too large in all.
func (v *validator) size() {
	assignments := 0
	for _, p := range v.team.Phases {
		assignments += len(p.Personas)
	}
	if assignments > maxAssignments {
		v.add("$.phases", "have %d assignments (personas in phases) together; at most %d are allowed in one session", assignments, maxAssignments)
	}
	if outline, err := json.Marshal(v.team.Outline()); err == nil && len(outline) > maxOutline {
		v.add("$", "is too large for a session: without its instructions it takes %d bytes; at most %d are allowed", len(outline), maxOutline)
	}
}

// count faults a number that is given and not between 1 and most.
func (v *validator) count(path string, n, most int) {
	if n != 0 && (n < 1 || n > most) {
		v.add(path, "is %d; it must be between 1 and %d", n, most)
	}
}

// duration faults a duration that is given and not between least and most.
func (v *validator) duration(path string, d, least, most Duration) {
	if d != 0 && (d < least || d > most) {
		v.add(path, "is %s; it must be between %s and %s", d, least, most)
	}
}

func (v *validator) amount(path string, c Cap) {
	if c.Tokens < 0 || c.Tokens > maxBudgetTokens {
		v.add(path+".tokens", "is %d; it must be between 1 and %d", c.Tokens, maxBudgetTokens)
	}
	if c.USD < 0 || c.USD > maxBudgetUSD {
		v.add(path+".usd", "is %s; it must be above 0 and at most %s", c.USD, maxBudgetUSD)
	}
}

// list checks every entry of a list and faults what is listed twice.
func (v *validator) list(path string, entries []string, check func(string) error) {
	if len(entries) > maxListed {
		v.add(path, "has %d entries; at most %d are allowed", len(entries), maxListed)
		return
	}
	for i, entry := range entries {
		if err := check(entry); err != nil {
			v.check(ItemPath(path, i), err)
		} else if slices.Contains(entries[:i], entry) {
			v.add(ItemPath(path, i), "lists %q a second time; leave it out", entry)
		}
	}
}
