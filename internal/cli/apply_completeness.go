package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// completeness says how much of a session's work its newest checkpoint has.
type completeness struct {
	// Whole: it has the work of every phase that the session was to run, or the session
	// has completed.
	Whole bool `json:"whole"`
	// Missing are the phases that it lacks, in the team's order.
	Missing []string `json:"missing"`
	// Reason says so in words; empty: the result is whole.
	Reason string `json:"reason"`

	// part says what there is, like "1 of 4 phases (requirements)".
	part string
}

// completenessOf compares a checkpoint with what its session was to do. A session that
// has completed is whole, whatever was left out.
func completenessOf(k storedSession, e session.Execution) completeness {
	c := completeness{Whole: true, Missing: []string{}}
	if e.Status.Status == session.Completed {
		return c
	}
	var has, sentBack, lacking []string
	for _, phase := range k.team.PhaseNames() {
		switch reworking := k.Reworking(phase) != nil; {
		case len(e.Course.Only) > 0 && !slices.Contains(e.Course.Only, phase):
			continue
		case hasPhase(k, phase):
			has = append(has, phase)
			continue
		case reworking:
			sentBack = append(sentBack, phase)
		default:
			lacking = append(lacking, phase)
		}
		c.Missing = append(c.Missing, phase)
	}
	unapproved := slices.IndexFunc(e.Phases, func(p session.PhaseStatus) bool { return p.Status == session.AwaitingApproval })
	if len(c.Missing) == 0 && (unapproved < 0 || e.Status.Status.Closed()) {
		return c
	}
	c.Whole = false
	c.part = fmt.Sprintf("%d of %s", len(has), textfmt.Count(len(has)+len(c.Missing), "phase"))
	if len(has) > 0 {
		c.part += " (" + firstOf(has, 5) + ")"
	}
	verb := "are"
	if len(has) == 1 {
		verb = "is"
	}
	c.Reason = fmt.Sprintf("session %s %s and its result is incomplete: %s %s in its newest checkpoint", k.Session, statePhrase(e.Status.Status), c.part, verb)
	if unapproved >= 0 {
		c.Reason += fmt.Sprintf("; phase %s is not approved", e.Phases[unapproved].Name)
	}
	if len(sentBack) > 0 {
		c.Reason += fmt.Sprintf("; %s sent back and not redone", wasOrWere(sentBack))
	}
	if len(lacking) > 0 {
		c.Reason += fmt.Sprintf("; %s not done", wasOrWere(lacking))
	}
	return c
}

// hasPhase reports whether a checkpoint has the work of a whole phase. Work that a person
// skips counts as done.
func hasPhase(k storedSession, phase string) bool {
	return !slices.ContainsFunc(k.team.Assignments(), func(id spec.AssignmentID) bool {
		return id.Phase == phase && !slices.ContainsFunc(k.Assignments, func(a session.CheckpointAssignment) bool { return a.AssignmentID == id }) && !settledBy(k, id)
	})
}

// settledBy reports whether the last answer of a person on an assignment, since it was
// last sent back, was to skip it.
func settledBy(k storedSession, id spec.AssignmentID) bool {
	for _, a := range slices.Backward(k.Answers) {
		if a.Phase == id.Phase && a.Persona == id.Persona {
			r := k.Reworking(id.Phase)
			return a.CountsAsDone && (r == nil || r.At.Before(a.At))
		}
	}
	return false
}

// statePhrase is a session's state as the predicate of a sentence.
func statePhrase(s session.State) string {
	switch s {
	case session.Failed:
		return "has failed"
	case session.WasCancelled:
		return "is cancelled"
	case session.HelpIsNeeded, session.AwaitingApproval:
		return "waits for a person"
	case "":
		return "has an unknown state"
	default:
		return "has not ended"
	}
}

func wasOrWere(names []string) string {
	if len(names) == 1 {
		return names[0] + " was"
	}
	return safetext.Clip(strings.Join(names[:len(names)-1], ", ")+" and "+names[len(names)-1], 200) + " were"
}

// refuseIncomplete refuses to apply a result that is not whole, and says what can be done.
func (c *applyCommand) refuseIncomplete(doc applyDocument) error {
	if c.output == outputJSON {
		return cmp.Or(c.printJSON(doc), exit(exitFailed))
	}
	first := c.commandLine("resume " + doc.Session)
	if doc.Status != "" && !doc.Status.Closed() {
		first = c.commandLine("watch " + doc.Session)
	}
	return failf("%s; run `%s` or `%s`", doc.Reason, first, c.commandLine("apply "+doc.Session+" --partial"))
}
