package activities

import (
	"context"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Planned is the input of Plan.
type Planned struct {
	Key         session.Key
	Team        spec.Team // resolved
	Requirement string
	// Start has no store and no blobs of the team and the requirement.
	Start session.Start
	// Agents are the offers of workers; they are used only for a session that resumes.
	Agents map[string]spec.OfferedAgent
}

// Plan returns the decision of an admission on each assignment, in the order of the
// phases, with the same texts; or a sentence for each reason why it would refuse the
// course. It runs and writes nothing. A new session needs only Files, which must have the
// workspace and the files that the course supplies.
func (a *Admissions) Plan(ctx context.Context, p Planned) (plan []session.PlanEntry, faults []string, err error) {
	if faults := p.Start.Course.Problems(p.Team); len(faults) > 0 {
		return nil, faults, nil
	}
	p.Start.Run = max(p.Start.Run, 1)
	r := a.restoration(ctx, p.Key, AdmitInput{Start: p.Start}, p.Team)
	r.agents, r.requirement = p.Agents, p.Requirement
	if err := r.judge(); err != nil {
		return nil, nil, err
	}
	return r.plan, r.faults, nil
}

// restoration returns a restoration that has decided nothing yet.
func (a *Admissions) restoration(ctx context.Context, key session.Key, in AdmitInput, t spec.Team) *restoration {
	return &restoration{
		Admissions: a, ctx: ctx, key: key, in: in, team: t, given: in.Course.Given,
		records: map[spec.AssignmentID]session.Record{}, costs: map[spec.AssignmentID]cost.Usage{}, found: map[spec.AssignmentID]finished{},
		done: map[spec.AssignmentID]session.CheckpointAssignment{}, changed: map[string]string{},
		approved: map[string][]session.Approval{}, inputs: map[string]spec.Digest{}, conflicts: map[string][]session.Conflict{}, merged: map[string]spec.Digest{},
	}
}

// decide decides on every assignment: it is reused or runs.
func (r *restoration) decide() error {
	for _, phase := range r.team.InOrder() {
		if err := r.phase(*phase); err != nil {
			return err
		}
	}
	return r.disagreement()
}
