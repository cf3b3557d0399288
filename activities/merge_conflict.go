package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// maxListed is how many conflicts a brief and a failure list; [session.MergeDir] has all.
const maxListed = 40

// mergeReport is the blob that tells an integrator why it has to work on the merged tree.
type mergeReport struct {
	failures.Failure
	// Sides is a tree with all versions of the conflicts; empty: there were none.
	Sides spec.Digest `json:"sides,omitempty"`
	// Conflicts names the paths and decisions, at most maxListed of them.
	Conflicts []string `json:"conflicts,omitempty"`
}

// readReport reads a report on a merge.
func readReport(ctx context.Context, files Files, blob spec.Digest) (r mergeReport, err error) {
	data, err := files.Blob(ctx, blob)
	if err != nil {
		return r, fmt.Errorf("read feedback: %w", err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("feedback: %w: %w", session.ErrCorrupt, err)
	}
	return r, nil
}

// write stores the report with its output, which histories must not hold.
func (r mergeReport) write(ctx context.Context, files Files) (spec.Digest, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return "", errors.Join(session.ErrCorrupt, err)
	}
	return files.PutBlob(ctx, data)
}

// conflicts are the conflicts of the personas' own work, and how they stand in a result.
type conflicts struct {
	steps     []session.Step
	standings []session.Standing
	// byPerson: a person has supplied the merged files, which settles all conflicts.
	byPerson bool
}

// conflicts finds the conflicts of the personas' own work. The result has the work of the
// integrating rounds, too.
func (m *phaseMerge) conflicts(ctx context.Context, done map[spec.AssignmentID]session.CheckpointAssignment, result spec.Digest) (conflicts, error) {
	own := maps.Clone(done)
	var integrated []session.Work
	decided := map[spec.AssignmentID]map[string]string{}
	byPerson := false
	for id, a := range own {
		integrated = append(integrated, a.Integrated...)
		byPerson = byPerson || len(a.Integrated) > 0 && a.Status == session.Supplied
		decided[id] = a.Decisions
		a.Integrated = nil
		own[id] = a
	}
	c := conflicts{steps: session.Steps(m.session.team, []string{m.phase.Name}, own), byPerson: byPerson}
	given, err := m.ports.Files.Fold(ctx, m.in.Input, c.steps)
	if err != nil {
		return c, err
	}
	c.standings, err = m.ports.Files.Standings(ctx, m.in.Input, given.Manifest, result, c.steps, session.Joined(given.Conflicts))
	if err != nil {
		return c, err
	}
	for i, s := range c.standings {
		c.standings[i].Kept = s.KeptOf(integrated)
	}
	_, decisions := session.MergeDecisions(nil, c.steps)
	for _, d := range session.Joined(decisions) {
		c.standings = append(c.standings, session.DecisionStanding(d, decided, integrated))
	}
	return c, nil
}

// all lists the conflicts.
func (c conflicts) all() []session.Conflict {
	out := make([]session.Conflict, len(c.standings))
	for i, s := range c.standings {
		out[i] = s.Conflict
	}
	return out
}

// unsettled returns the failure that lists the conflicts for the integrator; nil: all are settled.
func (c conflicts) unsettled(phase string, again bool) *failures.Failure {
	var lines []string
	for _, s := range c.standings {
		if err := s.Err(); err != nil && !c.byPerson {
			line := s.String()
			if again {
				line += ": " + err.Error()
			}
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	slices.Sort(lines)
	f := failures.Failf(failures.ContractViolation, "merge conflict between personas of phase %s: %s", phase, strings.Join(lines, "; "))
	if n := len(lines) - maxListed; n > 0 {
		lines = append(lines[:maxListed], fmt.Sprintf("and %d more", n))
	}
	f.Output = strings.Join(lines, "\n") + "\nThe files have the version of the last one named. The others are in " + session.MergeDir + "."
	return f
}

// report stores what the integrator is told about a failure of the merge.
func (m *phaseMerge) report(ctx context.Context, f failures.Failure, c conflicts) (spec.Digest, error) {
	r := mergeReport{Failure: f}
	if len(c.standings) > 0 {
		var err error
		if r.Sides, err = m.ports.Files.Sides(ctx, m.in.Input, c.steps, c.all()); err != nil {
			return "", err
		}
		for _, conflict := range c.all()[:min(len(c.standings), maxListed)] {
			r.Conflicts = append(r.Conflicts, conflict.String())
		}
	}
	return r.write(ctx, m.ports.Files)
}
