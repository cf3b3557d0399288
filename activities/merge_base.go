package activities

import (
	"context"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// mergeBase is what a session's work is merged onto.
type mergeBase struct {
	files     Files
	team      spec.Team
	workspace spec.Digest
	// given are decisions that were made before the session.
	given map[string]string
}

// fold merges the work of the phases onto the workspace, and finds on which
// paths and decisions it disagrees.
func (g mergeBase) fold(ctx context.Context, phases []string, done map[spec.AssignmentID]session.CheckpointAssignment) (session.Folded, []session.Step, error) {
	steps := session.Steps(g.team, phases, done)
	folded, err := g.files.Fold(ctx, g.workspace, steps)
	if err != nil {
		return session.Folded{}, nil, err
	}
	_, conflicts := session.MergeDecisions(g.given, steps)
	folded.Conflicts = append(folded.Conflicts, conflicts...)
	return folded, steps, nil
}

// fill gives a checkpoint the work that is done and what it adds up to. It
// returns what the work disagrees on.
func (g mergeBase) fill(ctx context.Context, c *session.Checkpoint, done map[spec.AssignmentID]session.CheckpointAssignment) ([]session.Conflict, error) {
	folded, steps, err := g.fold(ctx, g.team.PhaseNames(), done)
	if err != nil {
		return nil, err
	}
	c.Tree = folded.Manifest
	c.Decisions, _ = session.MergeDecisions(g.given, steps)
	c.Assignments, c.Usage = []session.CheckpointAssignment{}, cost.Usage{}
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
func digested(a session.CheckpointAssignment) session.CheckpointAssignment {
	if a.Basis != nil {
		a.InputDigest = a.Basis.Digest()
	}
	return a
}
