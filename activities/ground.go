package activities

import (
	"context"

	"github.com/maestro-hive/maestro/internal/team"
)

// ground is what a session's work is merged onto.
type ground struct {
	files     Files
	team      team.Team
	workspace team.Digest
	// given are decisions that were made before the session.
	given map[string]string
}

// fold merges the work of the phases onto the workspace, and finds on which
// paths and decisions it disagrees.
func (g ground) fold(ctx context.Context, phases []string, done map[team.AssignmentID]team.CheckpointAssignment) (team.Folded, []team.Step, error) {
	steps := team.Steps(g.team, phases, done)
	folded, err := g.files.Fold(ctx, g.workspace, steps)
	if err != nil {
		return team.Folded{}, nil, err
	}
	_, conflicts := team.MergeDecisions(g.given, steps)
	folded.Conflicts = append(folded.Conflicts, conflicts...)
	return folded, steps, nil
}

// fill gives a checkpoint the work that is done and what it adds up to. It
// returns what the work disagrees on.
func (g ground) fill(ctx context.Context, c *team.Checkpoint, done map[team.AssignmentID]team.CheckpointAssignment) ([]team.Conflict, error) {
	folded, steps, err := g.fold(ctx, g.team.PhaseNames(), done)
	if err != nil {
		return nil, err
	}
	c.Tree = folded.Manifest
	c.Decisions, _ = team.MergeDecisions(g.given, steps)
	c.Assignments, c.Usage = []team.CheckpointAssignment{}, team.Usage{}
	for _, id := range g.team.Assignments() {
		if a, ok := done[id]; ok {
			c.Assignments = append(c.Assignments, digested(a))
			c.Usage = c.Usage.Add(a.Usage)
		} else if a, ok := c.Undone(id); ok { // it has cost what it has cost
			c.Usage = c.Usage.Add(a.Usage)
		}
	}
	c.Artifacts, err = g.files.Artifacts(ctx, steps)
	return folded.Conflicts, err
}

// digested names the basis of an assignment's work as a whole.
func digested(a team.CheckpointAssignment) team.CheckpointAssignment {
	if a.Basis != nil {
		a.InputDigest = a.Basis.Digest()
	}
	return a
}
