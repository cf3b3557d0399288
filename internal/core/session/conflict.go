package session

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// MergeDir is the directory with the versions of a conflict, in the tree of the integrator. It is
// not part of the result.
const MergeDir = ".maestro-merge"

// The values of [Kept.From] of a result that has all versions, or none of them.
const (
	KeptAll  = "all"
	KeptNone = "none"
)

// Kept says which version of a conflict an integrator has kept, and why.
type Kept struct {
	// From is the [Conflict.Name] of the persona whose version the result has, KeptAll or KeptNone.
	From string `json:"from"`
	Why  string `json:"why"`
}

// CheckKept rejects statements on conflicts that are incomplete, or exceed a session's limits.
func CheckKept(kept map[string]Kept) error {
	total := 0
	for _, what := range slices.Sorted(maps.Keys(kept)) {
		k := kept[what]
		if k.From == "" || strings.TrimSpace(k.Why) == "" {
			return fmt.Errorf("kept[%q] needs \"from\", the persona whose version is kept, and \"why\"", textfmt.Shorten(what, 80))
		}
		total += len(what) + len(k.From) + len(k.Why)
	}
	if total > MaxDecisionsTotal {
		return fmt.Errorf("kept has %d bytes; at most %d are allowed: name a directory for all files below it", total,
			MaxDecisionsTotal)
	}
	return nil
}

// MaskedKept returns the statements with masked texts.
func MaskedKept(kept map[string]Kept, mask func(string) string) map[string]Kept {
	var out map[string]Kept
	for what, k := range kept {
		if out == nil {
			out = map[string]Kept{}
		}
		out[mask(what)] = Kept{mask(k.From), mask(k.Why)}
	}
	return out
}

// Standing is how a conflict stands in a result.
type Standing struct {
	Conflict
	// Same has the [Conflict.Name] of each persona whose version the result has.
	Same []string
	// Moved has the others whose files the result has at other paths.
	Moved []string
	// Given: the result is as the merge without an integrator has it.
	Given bool
	// Removed: each version has something at the path, and the result has nothing, or an empty file.
	Removed bool
	// Kept is the integrator's statement; nil: it has made none.
	Kept *Kept
}

// Err says why the conflict is not settled; nil: it is.
func (s Standing) Err() error {
	switch {
	case s.Kept == nil && s.Given:
		return errors.New("it is as before")
	case len(s.gone()) == 0 && (s.Kept == nil || s.Kept.From == KeptAll):
		return nil
	case s.Kept == nil && s.Removed:
		return errors.New("nothing is left there")
	case s.Removed && s.Kept.From == KeptNone:
		return nil
	case s.Kept == nil && len(s.Same) > 0:
		return fmt.Errorf("it has the version of %s only", s.Same[0])
	case s.Kept == nil, s.Kept.From == KeptAll && len(s.Same) == 0, slices.Contains(s.Same, s.Kept.From):
		return nil
	case len(s.Same) > 0:
		return fmt.Errorf("the result says that the version of %s is kept, but it has that of %s", textfmt.Shorten(s.Kept.From, 80),
			s.Same[0])
	}
	return fmt.Errorf("the result says that the version of %s is kept, but it has another one", textfmt.Shorten(s.Kept.From, 80))
}

// Dropped says which versions of the conflict are not in the result; empty: none is known.
func (s Standing) Dropped() string {
	gone := s.gone()
	if len(gone) == 0 || len(s.Same) == 0 && !s.Removed {
		return ""
	}
	kept := "nothing is left there"
	if !s.Removed {
		kept = "only that of " + s.Same[0] + " is kept"
	}
	if s.Kept != nil {
		kept += ": " + strings.TrimSpace(s.Kept.Why)
	}
	return textfmt.Shorten(fmt.Sprintf("%s: the version of %s is dropped, %s", s.what(), strings.Join(gone, ", "), kept), MaxMessage)
}

// Name names a persona whose version conflicts: with its phase, unless all are of one.
func (c Conflict) Name(id spec.AssignmentID) string {
	if slices.ContainsFunc(c.Between, func(b spec.AssignmentID) bool { return b.Phase != id.Phase }) {
		return id.String()
	}
	return id.Persona
}

// gone lists the personas whose version is not in the result as it is.
func (s Standing) gone() (out []string) {
	for _, id := range s.Between {
		if name := s.Name(id); !slices.Contains(s.Same, name) && !slices.Contains(s.Moved, name) {
			out = append(out, name)
		}
	}
	return out
}

// MaxDropped is how many dropped versions a status lists.
const MaxDropped = 20

// Dropped lists the versions that a result does not have, in the limits of a status.
func Dropped(standings []Standing) []string {
	var out []string
	for _, s := range standings {
		if text := s.Dropped(); text != "" {
			out = append(out, text)
		}
	}
	if n := len(out) - MaxDropped; n > 0 {
		out = append(out[:MaxDropped:MaxDropped], fmt.Sprintf("and %d more", n))
	}
	return out
}

// Joined returns the conflicts with one for each path and decision, between all that have a version.
func Joined(conflicts []Conflict) []Conflict {
	var out []Conflict
	at := map[string]int{}
	for _, c := range conflicts {
		i, known := at[c.what()]
		if !known {
			at[c.what()] = len(out)
			c.Between = slices.Clone(c.Between)
			out = append(out, c)
			continue
		}
		for _, id := range c.Between {
			known := slices.Contains(out[i].Between, id)
			if last := id == c.Between[len(c.Between)-1]; known && last { // its version is the one that the files have
				out[i].Between = slices.DeleteFunc(out[i].Between, func(b spec.AssignmentID) bool { return b == id })
			}
			if !slices.Contains(out[i].Between, id) {
				out[i].Between = append(out[i].Between, id)
			}
		}
	}
	return out
}

// FewConflicts returns the first conflicts, as Joined, with the number of the others.
func FewConflicts(all []Conflict) []Conflict {
	few := Joined(all)
	if n := len(few) - MaxDropped; n > 0 {
		few = few[:MaxDropped:MaxDropped]
		few[MaxDropped-1].More = n
	}
	return few
}

// ListConflicts names the first conflicts of a list of [FewConflicts], and says how many others there are.
func ListConflicts(few []Conflict) string { return listed(few, Conflict.String) }

// KeepsLater is the effect of an answer that keeps the later version of each conflict of a list of [FewConflicts].
func KeepsLater(few []Conflict) string {
	return listed(few, func(c Conflict) string {
		kept, gone := c.later()
		return fmt.Sprintf("keeps the version of %s and drops that of %s (%s)", kept, gone, c.what())
	})
}

func listed(few []Conflict, text func(Conflict) string) string {
	const named = 3
	var texts []string
	for _, c := range few[:min(len(few), named)] {
		texts = append(texts, textfmt.Shorten(text(c), MaxMessage/named))
	}
	out := strings.Join(texts, "; ")
	if more := len(few) - len(texts) + few[len(few)-1].More; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}

// later says whose version of the conflict is the later one, and whose are dropped with it; empty: nobody's.
func (c Conflict) later() (kept, gone string) {
	var names []string
	for _, id := range c.Between {
		names = append(names, c.Name(id))
	}
	if len(names) == 0 {
		return "", ""
	}
	last := len(names) - 1
	return names[last], strings.Join(names[:last], ", ")
}

// KeptLater says what is dropped if a person keeps the later version of each conflict of a list of [FewConflicts].
func KeptLater(few []Conflict) (dropped []string) {
	for _, c := range few {
		if kept, gone := c.later(); gone != "" {
			dropped = append(dropped, textfmt.Shorten(fmt.Sprintf("%s: the version of %s is dropped, only that of %s is kept: a person "+
				"kept the later version", c.what(), gone, kept), MaxMessage))
		}
		if c.More > 0 {
			dropped = append(dropped, fmt.Sprintf("and %d more", c.More))
		}
	}
	return dropped
}

// KeptOf returns the newest statement of the steps on the conflict, or on a directory above its
// path; nil: there is none.
func (c Conflict) KeptOf(steps []Work) *Kept {
	for _, w := range slices.Backward(steps) {
		if k, ok := w.Kept[c.Decision]; ok && c.Decision != "" {
			return &k
		}
		for p := c.Path; p != ""; {
			if k, ok := w.Kept[p]; ok {
				return &k
			}
			cut := strings.LastIndexByte(p, '/')
			if cut < 0 {
				break
			}
			p = p[:cut]
		}
	}
	return nil
}

// DecisionStanding returns how a conflict of the steps' decisions stands after the settling work: it is settled by a decision
// of this work, too.
func DecisionStanding(c Conflict, steps []Step, settling []Work) Standing {
	own := map[spec.AssignmentID]string{}
	for _, s := range steps {
		if v, ok := s.Decisions[c.Decision]; ok {
			own[s.By] = v
		}
	}
	value, stated := own[c.Between[len(c.Between)-1]], false
	for _, w := range settling {
		if v, ok := w.Decisions[c.Decision]; ok {
			value, stated = v, true
		}
	}
	s := Standing{Conflict: c, Kept: c.KeptOf(settling), Given: !stated}
	for _, id := range c.Between {
		if own[id] == value {
			s.Same = append(s.Same, c.Name(id))
		}
	}
	if s.Kept == nil && stated && len(s.Same) > 0 {
		s.Kept = &Kept{From: s.Same[0], Why: "decided by the integrator"}
	}
	return s
}

// SettleHelp tells an integrator what conflicts, where the versions are, and how it is settled.
func SettleHelp(conflicts []string) string {
	return "- " + strings.Join(conflicts, "\n- ") + `

The files have the version of the last one named. Merge all versions into one. The versions are in the directory ` + MergeDir + `: base/ has the files before, versions/NAME/ those of
each persona, NAME.diff all changes of the persona, and decisions.json the decisions. NAME is PHASE/PERSONA if the personas are of several
phases. The directory is not part of the result.
A conflict is settled if the result is neither as it is now nor the version of one persona. If one version is right as it is, say so
in the result, with the reason: "kept": {"PATH": {"from": "NAME", "why": "..."}}. PATH is a file, a directory or the name of a decision;
NAME is the persona whose version the files have, "` + KeptAll + `" if they have all versions, or "` + KeptNone + `" if nothing is left at the path. A decision is also settled by deciding it again.`
}
