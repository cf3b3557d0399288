package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/team"
)

// Seals merges and verifies the phases in which several personas work.
type Seals struct {
	Rounds *Rounds
}

// Seal folds the personas' deltas onto the phase's input, looks whether the
// phase produced what it must, and runs its checks on the merged tree. What is
// wrong with the work is in the result: it is for the workflow to have it
// mended. An unusable store or a stopping worker is an error that Temporal
// tries again.
func (s *Seals) Seal(ctx context.Context, in SealInput) (SealResult, error) {
	// A seal is at work like a round: it beats, it stops with its worker, and
	// it holds the lock of the integrator, in whose directory it works.
	r := &round{Rounds: s.Rounds, info: activity.GetInfo(ctx)}
	work, over := r.atWork(ctx)
	defer over()
	if err := r.persist(work, func() (err error) {
		r.scene, err = loadScene(work, r.Files, r.Sessions, in.Head)
		return err
	}); err != nil {
		return SealResult{}, r.interrupted(work, err)
	}
	phase, _ := r.scene.team.Phase(in.Phase)
	r.in = RoundInput{AssignmentID: team.AssignmentID{Phase: in.Phase, Persona: phase.Integrator}, Input: in.Input}
	unlock, err := r.lock(work)
	if err != nil {
		return SealResult{}, r.interrupted(work, err)
	}
	defer unlock()

	result, err := r.sealed(work, phase, in)
	if err == nil && result.Failure != nil {
		f := *result.Failure
		result.Failure = &team.Failure{Category: f.Category, Message: team.Shorten(f.Message, team.MaxMessage)}
		err = r.persist(work, func() (err error) {
			result.Feedback, err = encodeFeedback(work, r.Files, f)
			return err
		})
	}
	return result, r.interrupted(work, err)
}

func (r *round) sealed(ctx context.Context, phase team.Phase, in SealInput) (SealResult, error) {
	done := map[team.AssignmentID]team.CheckpointAssignment{}
	for _, a := range in.Assignments {
		done[a.AssignmentID] = a
	}
	steps := r.scene.team.Steps([]string{phase.Name}, done)
	var folded team.Folded
	if err := r.persist(ctx, func() (err error) {
		folded, err = r.Files.Fold(ctx, in.Input, steps)
		return err
	}); err != nil {
		return SealResult{}, err
	}
	result := SealResult{Tree: folded.Manifest}
	_, conflicts := team.MergeDecisions(nil, steps)
	if conflicts = append(folded.Conflicts, conflicts...); len(conflicts) > 0 {
		result.Failure = conflictFailure(phase.Name, conflicts)
		return result, nil
	}
	return r.verify(ctx, phase, in.Input, result)
}

// verify holds the merged tree against what the phase has to produce and pass.
func (r *round) verify(ctx context.Context, phase team.Phase, input team.Digest, result SealResult) (SealResult, error) {
	changed, err := r.changedBetween(ctx, input, result.Tree)
	if err != nil {
		return result, err
	}
	if result.Failure = missing(phase.Produces, changed); result.Failure != nil || len(phase.Checks) == 0 {
		return result, nil
	}
	var dir team.WorkDir
	if err := r.persist(ctx, func() error {
		if dir, err = r.Sessions.WorkDir(r.scene.key, r.in.AssignmentID); err != nil {
			return err
		}
		return r.Files.Materialise(ctx, result.Tree, dir.Tree)
	}); err != nil {
		return result, err
	}
	req := team.Collect{Base: result.Tree, Dir: dir.Tree, Ignore: r.scene.team.Ignore, Secrets: r.Agents.Secrets()}
	var kept team.Collected
	var outcome team.Outcome
	for _, check := range phase.Checks {
		if kept, err = r.check(ctx, check, dir, req, kept, &outcome); err != nil {
			return failedSeal(result, err)
		}
	}
	if kept.Delta != "" {
		result.Kept, result.Tree = kept.Delta, kept.Output
	}
	return result, nil
}

// failedSeal keeps a failure of the work in the result; other errors are the
// activity's.
func failedSeal(result SealResult, err error) (SealResult, error) {
	if f, ok := asFailure(err); ok {
		result.Failure = f
		return result, nil
	}
	return result, err
}

// changedBetween lists the files of a tree that differ from its input's.
func (r *round) changedBetween(ctx context.Context, input, tree team.Digest) (changed []string, err error) {
	err = r.persist(ctx, func() (err error) {
		changed, err = r.Files.Changed(ctx, input, tree)
		return err
	})
	return changed, err
}

// conflictFailure tells the integrator on what the personas disagree.
func conflictFailure(phase string, conflicts []team.Conflict) *team.Failure {
	var lines []string
	for _, c := range conflicts {
		lines = append(lines, c.String())
	}
	slices.Sort(lines)
	f := team.Failf(team.ContractViolation, "the personas of phase %s disagree: %s", phase, strings.Join(lines, "; "))
	f.Output = fmt.Sprintf("%s\nThe tree has the version of the one named last. Make one version that serves all.", strings.Join(lines, "\n"))
	return f
}
