package agent

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/maestro-hive/maestro/internal/team"
)

// placeholder is what texts of a script may refer to. Anything else between ${
// and } is left as it is: it belongs to the program that the text is.
var placeholder = regexp.MustCompile(`\$?\$\{(?:decision\.([A-Za-z0-9][A-Za-z0-9._-]*)|` +
	`(requirement|session|phase|persona|role|instructions|round|attempt|feedback\.(?:category|message|output|advice|note)))(:-[^}]*)?\}`)

// filler fills in the placeholders of a play.
type filler struct {
	values, decisions map[string]string
	// missing holds the decisions that were referred to and not made.
	missing map[string]bool
}

func newFiller(b team.Brief) *filler {
	f := &filler{
		values: map[string]string{
			"requirement": b.Requirement, "session": b.Session, "phase": b.Phase, "persona": b.Persona,
			"role": b.Role, "instructions": b.Instructions,
			"round": strconv.Itoa(b.Round), "attempt": strconv.Itoa(b.Attempt),
		},
		decisions: map[string]string{},
		missing:   map[string]bool{},
	}
	maps.Copy(f.decisions, b.Decisions)
	if said := b.Feedback; said != nil {
		f.values["feedback.category"] = string(said.Category)
		f.values["feedback.message"] = said.Message
		f.values["feedback.output"] = said.Output
		f.values["feedback.advice"] = said.Advice
		f.values["feedback.note"] = said.Note
	}
	return f
}

// fill replaces the placeholders of a text.
func (f *filler) fill(text string) string {
	if !strings.Contains(text, "${") {
		return text
	}
	return placeholder.ReplaceAllStringFunc(text, func(match string) string {
		if strings.HasPrefix(match, "$$") {
			return match[1:]
		}
		parts := placeholder.FindStringSubmatch(match)
		decision, name, otherwise := parts[1], parts[2], parts[3]
		value := f.values[name]
		if decision != "" {
			made := false
			if value, made = f.decisions[decision]; !made && otherwise == "" {
				f.missing[decision] = true
			}
		}
		if value == "" && otherwise != "" {
			return otherwise[len(":-"):]
		}
		return value
	})
}

// err tells of decisions that were missing: what is built on them would be wrong.
func (f *filler) err() error {
	if len(f.missing) == 0 {
		return nil
	}
	name := slices.Min(slices.Collect(maps.Keys(f.missing)))
	return fmt.Errorf("the script refers to the decision %q, which no phase before has made; make it there, or give a default, like ${decision.%s:-none}", name, name)
}
