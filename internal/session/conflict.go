package session

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// MergeDir is the directory with the versions of a conflict, in the tree of the integrator. It is
// not part of the result.
const MergeDir = ".maestro-merge"

// KeptAll is the [Kept.From] of a result that has all versions.
const KeptAll = "all"

// Kept says which version of a conflict an integrator has kept, and why.
type Kept struct {
	// From is the persona whose version the result has; KeptAll: it has all versions.
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
		return fmt.Errorf("kept has %d bytes; at most %d are allowed: name a directory for all files below it", total, MaxDecisionsTotal)
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
	// Same lists the personas whose version the result has.
	Same []string
	// Moved lists the other personas whose files the result has at other paths.
	Moved []string
	// Given: the result is as the merge without an integrator has it.
	Given bool
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
	case s.Kept == nil && len(s.Same) > 0:
		return fmt.Errorf("it has the version of %s only", s.Same[0])
	case s.Kept == nil, s.Kept.From == KeptAll && len(s.Same) == 0, slices.Contains(s.Same, s.Kept.From):
		return nil
	case len(s.Same) > 0:
		return fmt.Errorf("the result says that the version of %s is kept, but it has that of %s", textfmt.Shorten(s.Kept.From, 80), s.Same[0])
	}
	return fmt.Errorf("the result says that the version of %s is kept, but it has another one", textfmt.Shorten(s.Kept.From, 80))
}

// Dropped says which versions of the conflict are not in the result; empty: none is known.
func (s Standing) Dropped() string {
	gone := s.gone()
	if len(s.Same) == 0 || len(gone) == 0 {
		return ""
	}
	why := ""
	if s.Kept != nil {
		why = ": " + strings.TrimSpace(s.Kept.Why)
	}
	return textfmt.Shorten(fmt.Sprintf("%s: the version of %s is dropped, only that of %s is kept%s",
		s.what(), strings.Join(gone, ", "), s.Same[0], why), MaxMessage)
}

// gone lists the personas whose version is not in the result as it is.
func (s Standing) gone() (out []string) {
	for _, id := range s.Between {
		if !slices.Contains(s.Same, id.Persona) && !slices.Contains(s.Moved, id.Persona) {
			out = append(out, id.Persona)
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
func ListConflicts(few []Conflict) string {
	const named = 3
	var texts []string
	for _, c := range few[:min(len(few), named)] {
		texts = append(texts, textfmt.Shorten(c.String(), MaxMessage/named))
	}
	text := strings.Join(texts, "; ")
	if more := len(few) - len(texts) + few[len(few)-1].More; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// DroppedVersion says that a version of an assignment is dropped.
type DroppedVersion struct {
	By   spec.AssignmentID
	Text string
}

// KeptLater returns what is dropped if a person keeps the later version of each conflict of a list of [FewConflicts].
func KeptLater(few []Conflict) (dropped []DroppedVersion) {
	for _, c := range few {
		last := len(c.Between) - 1
		for _, id := range c.Between[:max(last, 0)] {
			text := fmt.Sprintf("%s: the version of %s is dropped, only that of %s is kept: a person kept the later version", c.what(), id, c.Between[last])
			dropped = append(dropped, DroppedVersion{id, textfmt.Shorten(text, MaxMessage)})
			if c.More > 0 {
				dropped = append(dropped, DroppedVersion{id, fmt.Sprintf("and %d more", c.More)})
			}
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

// DecisionStanding returns how a conflict of decisions stands after the integrator's work: it is
// settled by a decision of the integrator, too.
func DecisionStanding(c Conflict, own map[spec.AssignmentID]map[string]string, integrated []Work) Standing {
	last := c.Between[len(c.Between)-1]
	value, stated := own[last][c.Decision], false
	for _, w := range integrated {
		if v, ok := w.Decisions[c.Decision]; ok {
			value, stated = v, true
		}
	}
	s := Standing{Conflict: c, Kept: c.KeptOf(integrated), Given: !stated}
	for _, id := range c.Between {
		if own[id][c.Decision] == value {
			s.Same = append(s.Same, id.Persona)
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
each persona, NAME.diff all changes of the persona, and decisions.json the decisions. It is not part of the result.
A conflict is settled if the result is neither as it is now nor the version of one persona. If one version is right as it is, say so
in the result, with the reason: "kept": {"PATH": {"from": "NAME", "why": "..."}}. PATH is a file, a directory or the name of a decision;
NAME is the persona whose version the files have, or "` + KeptAll + `" if they have all versions. A decision is also settled by deciding it again.`
}
