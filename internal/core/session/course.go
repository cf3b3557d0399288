package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Course selects the part of a team's work that a session does, and the work that is already
// available. The zero Course is all work, from the beginning to the end.
type Course struct {
	// Only names the phases to run; empty: all. The other phases stay pending, and their dependent
	// phases run without their work.
	Only []string `json:"only,omitempty"`
	// PauseAfter names phases after which the session waits until a person approves.
	PauseAfter []string `json:"pause_after,omitempty"`
	// Force names phases that run although their work is available.
	Force []string `json:"force,omitempty"`
	// Given are decisions that were made before the session, by name.
	Given map[string]string `json:"given,omitempty"`
	// Supplied is work that is used in place of that of phases.
	Supplied []SuppliedWork `json:"supplied,omitempty"`
	// Source is the directory from which the workspace was taken; nil: there was none, or it is
	// unknown.
	Source *Source `json:"source,omitempty"`
}

// Source is the directory that a session's workspace was taken from.
type Source struct {
	// Host is the machine that the directory is on.
	Host string `json:"host"`
	// Dir is its path, absolute.
	Dir string `json:"dir"`
	// Commit is the commit that was checked out there; empty: the directory was in no git
	// repository, or the repository had no commit.
	Commit string `json:"commit,omitempty"`
	// Remote is the address that the repository was cloned from, without credentials; empty: unknown.
	Remote string `json:"remote,omitempty"`
	// Prefix is the path of the directory in the repository, empty or ending in a slash.
	Prefix string `json:"prefix,omitempty"`
	// Include lists the patterns of files that were taken although they were ignored, or looked
	// like files with keys.
	Include []string `json:"include,omitempty"`
	// LeftOut says, in sentences, what was not taken: ignored files, those that look like secrets, and what no tree can
	// hold. If there are many of a kind, the first are named.
	LeftOut []string `json:"left_out,omitempty"`
}

// LeftOut says what was not taken of the workspace.
func (c Course) LeftOut() []string {
	if c.Source == nil {
		return nil
	}
	return c.Source.LeftOut
}

// SuppliedWork is a person's work in place of a phase's.
type SuppliedWork struct {
	Phase string `json:"phase"`
	// Files is a manifest. Its files are added to the input of the phase or, for an edit, to its
	// output.
	Files spec.Digest `json:"files"`
	// Edit: the phase was done, and its output is edited.
	Edit bool `json:"edit,omitempty"`
}

// Origin is the session from which another was forked.
type Origin struct {
	Session    string      `json:"session"`
	Checkpoint spec.Digest `json:"checkpoint"`
}

// Selects reports whether the course runs a phase.
func (c Course) Selects(phase string) bool { return len(c.Only) == 0 || slices.Contains(c.Only, phase) }

// PausesAfter reports whether a phase has to be approved before others build on it.
func (c Course) PausesAfter(p spec.Phase) bool {
	return p.Approve.Wanted() || slices.Contains(c.PauseAfter, p.Name)
}

// Supply returns the work that is supplied for a phase.
func (c Course) Supply(phase string) (SuppliedWork, bool) {
	i := slices.IndexFunc(c.Supplied, func(s SuppliedWork) bool { return s.Phase == phase })
	if i < 0 {
		return SuppliedWork{}, false
	}
	return c.Supplied[i], true
}

// Problems lists, a sentence each, what the course names that the team does not have, and
// contradictions in it. The team must be resolved.
func (c Course) Problems(t spec.Team) []string {
	var problems []string
	for _, named := range []struct {
		what   string
		phases []string
	}{{"run", c.Only}, {"pause after", c.PauseAfter}, {"force", c.Force}, {"supply", c.suppliedPhases()}} {
		for _, phase := range named.phases {
			if _, ok := t.Phase(phase); !ok {
				problems = append(problems, fmt.Sprintf("phase %q to %s not found; team %s has %s", phase, named.what, t.Name,
					strings.Join(t.PhaseNames(), ", ")))
			}
		}
	}
	for i, s := range c.Supplied {
		if slices.Contains(c.Force, s.Phase) {
			problems = append(problems, fmt.Sprintf("phase %s: --force excludes --input and --edit; leave one out", s.Phase))
		}
		if p, _ := t.Phase(s.Phase); p.Deliver != nil {
			problems = append(problems, fmt.Sprintf("phase %s delivers the work of other phases and has no files of its own; "+
				"use --input or --edit for one of those", s.Phase))
		}
		if slices.Contains(c.suppliedPhases()[:i], s.Phase) {
			problems = append(problems, fmt.Sprintf("phase %s is supplied twice; put all its files into one directory", s.Phase))
		}
	}
	for _, phase := range c.Force {
		if !c.Selects(phase) {
			problems = append(problems, fmt.Sprintf("phase %s is forced but not selected; select it", phase))
		}
	}
	if err := CheckDecisions(c.Given); err != nil {
		problems = append(problems, err.Error())
	}
	return problems
}

func (c Course) suppliedPhases() []string {
	out := make([]string, len(c.Supplied))
	for i, s := range c.Supplied {
		out[i] = s.Phase
	}
	return out
}

// PlanAction is what happens to an assignment when a session starts or continues.
type PlanAction string

// The actions of a plan.
const (
	// Restore: the finished work is reused.
	Restore PlanAction = "restore"
	// RunIt: the assignment runs.
	RunIt PlanAction = "run"
	// SupplyIt: the work was supplied.
	SupplyIt PlanAction = "supply"
	// Leave: the assignment is not selected and has no work.
	Leave PlanAction = "leave"
	// Drop: the team does not have the assignment any more.
	Drop PlanAction = "drop"
)

// PlanEntry is the action for one assignment, and the reason.
type PlanEntry struct {
	spec.AssignmentID
	Action PlanAction `json:"action"`
	Reason string     `json:"reason"`
}
