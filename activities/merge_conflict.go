package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
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

// conflicts are the conflicts of work that was done side by side, and how they stand in a result.
type conflicts struct {
	// base is the tree that the steps were made on.
	base      spec.Digest
	steps     []session.Step
	standings []session.Standing
	// of is the work that has the conflicts, for messages.
	of string
	// byPerson: a person has supplied the merged files, which settles all conflicts.
	byPerson bool
}

// findConflicts finds the conflicts of the steps, and how they stand in a result that settling work was added to.
func findConflicts(ctx context.Context, files Files, c conflicts, result spec.Digest, settling []session.Work) (conflicts,
	error,
) {
	given, err := files.Fold(ctx, c.base, c.steps)
	if err != nil {
		return c, err
	}
	if result == "" {
		result = given.Manifest
	}
	c.standings, err = files.Standings(ctx, c.base, given.Manifest, result, c.steps, session.Joined(given.Conflicts))
	if err != nil {
		return c, err
	}
	for i, s := range c.standings {
		c.standings[i].Kept = s.KeptOf(settling)
	}
	_, decisions := session.MergeDecisions(nil, c.steps)
	for _, d := range session.Joined(decisions) {
		c.standings = append(c.standings, session.DecisionStanding(d, c.steps, settling))
	}
	return c, nil
}

// conflicts finds the conflicts of the personas' own work. The result has the work of the
// integrating rounds, too.
func (m *phaseMerge) conflicts(ctx context.Context, done map[spec.AssignmentID]session.CheckpointAssignment,
	result spec.Digest,
) (conflicts, error) {
	own := maps.Clone(done)
	var integrated []session.Work
	c := conflicts{base: m.in.Input, of: "personas of phase " + m.phase.Name}
	for id, a := range own {
		integrated = append(integrated, a.Integrated...)
		c.byPerson = c.byPerson || len(a.Integrated) > 0 && a.Status == session.Supplied
		a.Integrated = nil
		own[id] = a
	}
	c.steps = session.Steps(m.session.team, []string{m.phase.Name}, own)
	return findConflicts(ctx, m.Files, c, result, integrated)
}

// all lists the conflicts.
func (c conflicts) all() []session.Conflict {
	out := make([]session.Conflict, len(c.standings))
	for i, s := range c.standings {
		out[i] = s.Conflict
	}
	return out
}

// needsIntegrator returns why the integrator has to work on the merge: the failure that lists the conflicts; nil if all are
// settled.
func (c conflicts) needsIntegrator(again bool) *failures.Failure {
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
	f := failures.Failf(failures.ContractViolation, "merge conflict between %s: %s", c.of, strings.Join(lines, "; "))
	if n := len(lines) - maxListed; n > 0 {
		lines = append(lines[:maxListed], fmt.Sprintf("and %d more", n))
	}
	f.Output = strings.Join(lines, "\n") + "\nThe files have the version of the last one named. The others are in " +
		session.MergeDir + "."
	return f
}

// report describes the conflicts to who settles them.
func (c conflicts) report(ctx context.Context, files Files, f failures.Failure) (mergeReport, error) {
	r := mergeReport{Failure: f}
	if len(c.standings) == 0 {
		return r, nil
	}
	var err error
	r.Sides, err = files.Sides(ctx, c.base, c.steps, c.all())
	for _, conflict := range c.all()[:min(len(c.standings), maxListed)] {
		r.Conflicts = append(r.Conflicts, conflict.String())
	}
	return r, err
}

// keepsWithoutConflict returns why an outcome cannot be part of the session: it settles a conflict that the round does not have.
// nil: it can.
func (a *attempt) keepsWithoutConflict(o session.Outcome) *failures.Failure {
	if len(o.SendsBack) == 0 && len(o.Kept) > 0 && a.merge.Sides == "" {
		return failures.Failf(failures.InvalidOutput, "the result has kept, but this round has no merge conflict to settle; "+
			"leave it out")
	}
	return nil
}

// readConflicts reads the report of the merge that the round has to settle, if there is one, or finds the conflicts of
// its input.
func (a *attempt) readConflicts(ctx context.Context) (err error) {
	switch {
	case a.in.Feedback != "":
		a.merge, err = fromStore(ctx, a.exec.retryStore, func() (mergeReport, error) { return readReport(ctx, a.Files, a.in.Feedback) })
	case a.in.Settles:
		err = a.exec.retryStore(ctx, func() error { return a.findGiven(ctx) })
	}
	return err
}

// findGiven finds the conflicts of the phases that the assignment builds on.
func (a *attempt) findGiven(ctx context.Context) (err error) {
	above := a.session.team.Ancestors(a.in.Phase)
	a.given = conflicts{
		base: a.session.checkpoint.Workspace, steps: session.Steps(a.session.team, above, a.session.done(nil)),
		of: "phases",
	}
	if a.given, err = findConflicts(ctx, a.Files, a.given, "", nil); err != nil {
		return err
	}
	if f := a.given.needsIntegrator(false); f != nil {
		a.merge, err = a.given.report(ctx, a.Files, *f)
	}
	return err
}

// settle returns which versions in conflicts of the input a result does not have. An unsettled conflict is a failure.
func (a *attempt) settle(ctx context.Context, result spec.Digest, o session.Outcome) (dropped []string, err error) {
	if a.merge.Sides == "" || !a.in.Settles {
		return nil, nil
	}
	found, err := fromStore(ctx, a.exec.retryStore, func() (conflicts, error) {
		return findConflicts(ctx, a.Files, a.given, result, []session.Work{{Decisions: o.Decisions, Kept: o.Kept}})
	})
	if err != nil {
		return nil, err
	}
	if f := found.needsIntegrator(true); f != nil {
		return nil, f
	}
	return session.Dropped(found.standings), nil
}
