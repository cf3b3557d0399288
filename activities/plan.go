package activities

import (
	"context"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// Plan says what the admission of a new session would make of each assignment, in
// the order of the phases and in admission's own words; or, a sentence each, why it
// would refuse the course. Nothing runs and nothing is published: files only has to
// have the workspace and what the course supplies. The team must be resolved.
func Plan(ctx context.Context, files Files, t spec.Team, c session.Course, workspace spec.Digest) (plan []session.PlanEntry, faults []string, err error) {
	if faults := c.Problems(t); len(faults) > 0 {
		return nil, faults, nil
	}
	a := &Admissions{Files: files}
	r := a.restoration(ctx, AdmitInput{Course: c, Workspace: workspace, Incarnation: 1}, t)
	if err := r.decide(); err != nil {
		return nil, nil, err
	}
	return r.plan, r.faults, nil
}

// restoration is the beginning of a decision, before anything has been looked at.
func (a *Admissions) restoration(ctx context.Context, in AdmitInput, t spec.Team) *restoration {
	return &restoration{
		Admissions: a, ctx: ctx, in: in, team: t, given: in.Course.Given,
		records: map[spec.AssignmentID]session.Record{}, costs: map[spec.AssignmentID]cost.Usage{}, found: map[spec.AssignmentID]finished{},
		done: map[spec.AssignmentID]session.CheckpointAssignment{}, changed: map[string]string{},
		inputs: map[string]spec.Digest{}, conflicts: map[string][]session.Conflict{}, merged: map[string]spec.Digest{},
	}
}

// decide says of every assignment what becomes of it.
func (r *restoration) decide() error {
	for _, name := range r.team.Topological() {
		phase, _ := r.team.Phase(name)
		if err := r.phase(phase); err != nil {
			return err
		}
	}
	return r.disagreement()
}
