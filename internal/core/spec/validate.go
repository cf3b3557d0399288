package spec

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Problem is an error in a team or worker file.
type Problem struct {
	// Path is the position: a YAMLPath like $.phases[2].personas[0]. It may name a field that the
	// file leaves out.
	Path string
	// Message describes what is wrong there and how to correct it.
	Message string
}

const (
	// MaxInstructions limits a persona's instructions, in bytes.
	MaxInstructions = 256 * 1024
	// maxAssignments and maxOutline keep a session within the limits of a Temporal
	// history.
	maxAssignments = 500
	maxOutline     = 256 * 1024 // bytes of JSON
	maxJiraFields  = 16 * 1024  // bytes of JSON
)

// TicketLabelPrefix is the prefix of the labels by which Maestro finds its tickets.
const TicketLabelPrefix = "maestro-"

// Problems lists the errors of the team as it was parsed, before [Team.Resolved] fills in what the
// file leaves out. It checks what the schema of team files cannot: rules on several parts of the
// file. A team that the schema accepts and that has no problems can run, given workers with its
// agents and checks. Problems that only follow from another problem are left out.
func (t Team) Problems() []Problem {
	v := &validator{team: t.Written()}
	v.personas()
	v.phases()
	v.retry()
	v.budget()
	v.help()
	v.alerts()
	v.size()
	return v.problems
}

// FieldPath is the YAMLPath of a mapping's entry. Its key is quoted if an unquoted one would be
// ambiguous.
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
	team     Team
	problems []Problem
}

func (v *validator) add(path, format string, args ...any) {
	v.problems = append(v.problems, Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

func (v *validator) personas() {
	folded := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(v.team.Personas)) {
		path := FieldPath("$.personas", name)
		if strings.EqualFold(name, ReservedPersona) {
			v.add(path, "%q is reserved for the step that merges a phase; choose another name", name)
		} else if strings.EqualFold(name, DeliveryPersona) && v.team.Delivers() {
			v.add(path, "%q is reserved for phases that deliver; choose another name", name)
		} else if other, ok := folded[strings.ToLower(name)]; ok {
			v.add(path, "differs from %q only by case, so their file names may be the same; rename one", other)
		}
		folded[strings.ToLower(name)] = name
		v.ranges(path+".produces", v.team.Personas[name].Produces)
	}
	v.unused()
}

// ranges reports patterns with an empty range.
func (v *validator) ranges(path string, patterns []string) {
	for i, pattern := range patterns {
		if problem := EmptyRange(pattern); problem != "" {
			v.add(ItemPath(path, i), "%s", problem)
		}
	}
}

// unused reports personas that no phase uses. It reports nothing if a phase's personas are missing
// or unknown: that problem is then the likely cause.
func (v *validator) unused() {
	used := map[string]bool{}
	for _, phase := range v.team.Phases {
		if len(phase.Personas) == 0 && phase.Deliver == nil {
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
	v.waits("initial", r.Initial, "max", r.Max)
	v.waits("round_initial", r.RoundInitial, "round_max", r.RoundMax)
	if r.PatienceOrDefault() == 0 && r.OnOutage != "" {
		v.add("$.retry.on_outage", "has nothing to decide: with `patience: 0s` no outage is waited out; leave it out")
	}
}

func (v *validator) waits(firstField string, first textfmt.Duration, capField string, most textfmt.Duration) {
	if most > 0 && first > most {
		v.add("$.retry."+capField, "is %s, less than %s (%s); it is the longest wait, so it cannot be below the first", most,
			firstField, first)
	}
}

func (v *validator) budget() {
	warnAt := v.team.Budget.WarnAt
	for i, at := range warnAt {
		if i > 0 && at <= warnAt[i-1] {
			v.add(ItemPath("$.budget.warn_at", i), "is %v after %v; list the fractions in ascending order", at, warnAt[i-1])
		}
	}
	if len(warnAt) > 0 && !v.team.Capped() {
		v.add("$.budget.warn_at", "has no budget to warn about; set tokens or usd beside it")
	}
}

// asks reports whether a session of the unresolved team may wait for a person who has to answer in time: approvals have no limit.
func (t Team) asks() bool {
	return t.Help.Mode != HelpFail || t.Retry.PatienceOrDefault() > 0 && t.Retry.OnOutage != OutageFail ||
		t.Budget.OnExceeded == OnExceededAsk ||
		slices.ContainsFunc(t.Phases, func(p Phase) bool {
			return p.Deliver != nil && p.Deliver.Merge == MergeAsk
		})
}

func (v *validator) help() {
	h := v.team.Help
	if h.GiveUpAfter != 0 && !v.team.asks() {
		v.add("$.help.give_up_after", "has no effect, because nothing waits that long: `mode: ask`, `on_exceeded: ask` and "+
			"`merge: ask` wait for a person, and `on_outage: wait` for a provider; leave it out")
	}
	if h.Jira == nil {
		return
	}
	if data, err := json.Marshal(h.Jira.Fields); err != nil {
		v.add("$.help.jira.fields", "is not plain data: %s", err)
	} else if len(data) > maxJiraFields {
		v.add("$.help.jira.fields", "has %d bytes as JSON; at most %d are allowed", len(data), maxJiraFields)
	}
}

// size reports teams whose parts are valid and that are too large as a whole.
func (v *validator) size() {
	assignments := 0
	for _, p := range v.team.Phases {
		assignments += max(len(p.Personas), 1) // a delivery is one
	}
	if assignments > maxAssignments {
		v.add("$.phases", "have %d assignments (personas in phases) together; at most %d are allowed in one session", assignments,
			maxAssignments)
	}
	if outline, err := json.Marshal(v.team.Outline()); err == nil && len(outline) > maxOutline {
		v.add("$", "is too large for a session: without its instructions it takes %d bytes; at most %d are allowed", len(outline),
			maxOutline)
	}
}
