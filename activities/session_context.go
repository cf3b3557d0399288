package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// sessionContext is the loaded state of an activity's session: a checkpoint, and the team
// that the checkpoint names.
type sessionContext struct {
	key        session.Key
	checkpoint session.Checkpoint
	team       spec.Team
}

// loadSessionContext reads the checkpoint and its team from the store.
func loadSessionContext(ctx context.Context, sessions Sessions, head spec.Digest) (sessionContext, error) {
	info := activity.GetInfo(ctx)
	s := sessionContext{key: sessionKey(info)}
	var err error
	if s.checkpoint, err = sessions.Checkpoint(ctx, head); err != nil {
		return s, fmt.Errorf("read checkpoint %s: %w", head.Short(), err)
	}
	s.team, err = sessions.Team(ctx, s.checkpoint.Team.Blob)
	return s, err
}

func sessionKey(info activity.Info) session.Key {
	return session.Key{Namespace: info.Namespace, Session: info.WorkflowExecution.ID}
}

// done indexes the finished assignments: the checkpoint's and, over them, more.
func (s sessionContext) done(more []session.CheckpointAssignment) map[spec.AssignmentID]session.CheckpointAssignment {
	done := map[spec.AssignmentID]session.CheckpointAssignment{}
	for _, a := range s.checkpoint.Assignments {
		done[a.AssignmentID] = a
	}
	for _, a := range more {
		done[a.AssignmentID] = a
	}
	return done
}

// mergeBase is the workspace and the decisions onto which a session's work is merged.
type mergeBase struct {
	files     Files
	team      spec.Team
	workspace spec.Digest
	// given are decisions from the start of the session.
	given map[string]string
}

// fold merges the work of the phases onto the workspace, and finds the conflicting
// paths and decisions.
func (g mergeBase) fold(ctx context.Context, phases []string,
	done map[spec.AssignmentID]session.CheckpointAssignment,
) (session.Folded, []session.Step, error) {
	steps := session.Steps(g.team, phases, done)
	folded, err := g.files.Fold(ctx, g.workspace, steps)
	if err != nil {
		return session.Folded{}, nil, err
	}
	_, conflicts := session.MergeDecisions(g.given, steps)
	folded.Conflicts = append(folded.Conflicts, conflicts...)
	return folded, steps, nil
}

// fill sets the work of a checkpoint, its tree, decisions and usage. It returns the
// conflicts of the work.
func (g mergeBase) fill(ctx context.Context, c *session.Checkpoint,
	done map[spec.AssignmentID]session.CheckpointAssignment,
) ([]session.Conflict, error) {
	folded, steps, err := g.fold(ctx, g.team.PhaseNames(), done)
	if err != nil {
		return nil, err
	}
	c.Tree = folded.Manifest
	c.Decisions, _ = session.MergeDecisions(g.given, steps)
	g.list(c, done)
	c.Artifacts, err = g.files.Artifacts(ctx, steps)
	return folded.Conflicts, err
}

// extend is fill for a checkpoint that has all work except that of a phase. If the phase depends
// on all other work, only the phase's work is merged, onto the checkpoint's tree: it is the last
// step, and resolves the conflicts of the work before it.
func (g mergeBase) extend(ctx context.Context, c *session.Checkpoint, phase string,
	done map[spec.AssignmentID]session.CheckpointAssignment,
) ([]session.Conflict, error) {
	if !covers(g.team.Ancestors(phase), c.Assignments) {
		return g.fill(ctx, c, done)
	}
	onto := mergeBase{g.files, g.team, c.Tree, c.Decisions}
	folded, steps, err := onto.fold(ctx, []string{phase}, done)
	switch {
	case err != nil:
		return nil, err
	case len(steps) == 0:
		return g.fill(ctx, c, done)
	}
	c.Tree = folded.Manifest
	c.Decisions, _ = session.MergeDecisions(onto.given, steps)
	g.list(c, done)
	c.Artifacts, err = g.addArtifacts(ctx, c.Tree, c.Artifacts, steps)
	return folded.Conflicts, err
}

// decisions are those of a phase's work and of all that the phase builds on. Where that is
// all work of the checkpoint, the checkpoint has merged it.
func (g mergeBase) decisions(c session.Checkpoint, phase string,
	done map[spec.AssignmentID]session.CheckpointAssignment,
) map[string]string {
	given, above := g.given, g.team.Ancestors(phase)
	if covers(above, c.Assignments) {
		given, above = c.Decisions, nil
	}
	decisions, _ := session.MergeDecisions(given, session.Steps(g.team, append(above, phase), done))
	return decisions
}

// list gives a checkpoint the assignments that are done, and what they have cost.
func (g mergeBase) list(c *session.Checkpoint, done map[spec.AssignmentID]session.CheckpointAssignment) {
	c.Assignments, c.Usage = []session.CheckpointAssignment{}, cost.Usage{}
	for _, id := range g.team.Assignments() {
		if a, ok := done[id]; ok {
			c.Assignments = append(c.Assignments, withBasisDigest(a))
			c.Usage = c.Usage.Add(a.Usage)
		} else if a, ok := c.Undone(id); ok { // it has cost what it has cost
			c.Usage = c.Usage.Add(a.Usage)
		}
	}
}

// addArtifacts lists those that are still in the tree, and what the steps have left.
func (g mergeBase) addArtifacts(ctx context.Context, tree spec.Digest, before []session.Artifact,
	steps []session.Step,
) ([]session.Artifact, error) {
	left, err := g.files.Artifacts(ctx, steps)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, a := range before {
		paths = append(paths, a.Path)
	}
	held, err := g.files.Held(ctx, tree, paths)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(left)
	for _, a := range before {
		_, there := slices.BinarySearch(held, a.Path)
		_, replaced := slices.BinarySearchFunc(left, a.Path,
			func(l session.Artifact, path string) int { return strings.Compare(l.Path, path) })
		if there && !replaced {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b session.Artifact) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// withBasisDigest sets InputDigest from the basis, unless it is set.
func withBasisDigest(a session.CheckpointAssignment) session.CheckpointAssignment {
	if a.Basis != nil && a.InputDigest == "" {
		a.InputDigest = a.Basis.Digest()
	}
	return a
}
