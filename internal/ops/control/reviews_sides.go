package control

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// treeSide is one side of a comparison.
type treeSide struct {
	name string
	tree spec.Digest
}

// sides finds the two sides.
func (r Reviews) sides(ctx context.Context, k kept, in DiffInput, doc *Diff) (from, to treeSide, err error) {
	first, second, isRange := strings.Cut(in.Which, "..")
	switch {
	case isRange && in.With != "":
		return from, to, invalidf("which", "%s compares two phases; with another session, give at most one phase", in.Which)
	case isRange:
		if from, err = k.after(ctx, first, k.input()); err == nil {
			to, err = k.after(ctx, second, k.newest())
		}
		return from, to, err
	case in.With != "":
		if from, err = k.after(ctx, in.Which, k.newest()); err == nil {
			to, err = r.compareTo(ctx, in)
		}
		return from, to, err
	case in.Redone && in.Which == "":
		return from, to, invalidf("redone", "name the phase that was done again")
	case in.Redone:
		doc.Phase = in.Which
		return k.redone(ctx, in.Which)
	case in.Which != "":
		doc.Phase = in.Which
		return k.phase(ctx, in.Which)
	}
	return k.input(), k.newest(), nil
}

// compareTo is the tree that a session's tree is compared with.
func (r Reviews) compareTo(ctx context.Context, in DiffInput) (treeSide, error) {
	sessionID, phase, _ := strings.Cut(in.With, ":")
	other, err := r.keptTeam(ctx, sessionID)
	if err != nil {
		return treeSide{}, err
	}
	return other.after(ctx, phase, other.newest())
}

// input is the tree at the session's start, newest the current one.
func (k kept) input() treeSide { return treeSide{"the start of " + k.Session, k.Workspace} }

func (k kept) newest() treeSide {
	name := "the newest tree of " + k.Session
	if k.CurrentPhase != spec.ReservedPhase {
		name += ", after " + k.CurrentPhase
	}
	return treeSide{name, k.Tree}
}

// after is the tree after a phase, or at a checkpoint, by the beginning of its digest; if which is empty, the usual one.
func (k kept) after(ctx context.Context, which string, usual treeSide) (treeSide, error) {
	if which == "" {
		return usual, nil
	}
	if _, known := k.team.Phase(which); !known {
		if all, _, err := chain(ctx, k.store, k.key); err == nil {
			if at, err := checkpointOf(all, k.Session, which); err == nil {
				return treeSide{fmt.Sprintf("checkpoint %s of %s, after %s", at.Name.Short(), k.Session, at.CurrentPhase), at.Tree}, nil
			}
		}
	}
	_, to, err := k.phase(ctx, which)
	return to, err
}

// phase is a phase's input tree, and that tree with its work.
func (k kept) phase(ctx context.Context, phase string) (from, to treeSide, err error) {
	done, err := k.finished(phase)
	if err != nil {
		return from, to, err
	}
	above := k.team.Ancestors(phase)
	before, err := k.store.Content.Fold(ctx, k.Workspace, session.Steps(k.team, above, done))
	if err != nil {
		return from, to, err
	}
	after, err := k.store.Content.Fold(ctx, k.Workspace, session.Steps(k.team, append(above, phase), done))
	return treeSide{k.Session + " before " + phase, before.Manifest}, treeSide{k.Session + " after " + phase, after.Manifest}, err
}

// redone is the tree after a phase as it was when the phase was last sent back, and as it is now.
func (k kept) redone(ctx context.Context, phase string) (from, to treeSide, err error) {
	done, err := k.finished(phase)
	if err != nil {
		return from, to, err
	}
	was := k.SentBackLast(phase)
	if was == nil {
		return from, to, notFoundf("the work of phase %s of session %s was never sent back", phase, k.Session)
	}
	steps := func() []session.Step { return session.Steps(k.team, append(k.team.Ancestors(phase), phase), done) }
	after, err := k.store.Content.Fold(ctx, k.Workspace, steps())
	if err != nil {
		return from, to, err
	}
	for _, as := range was.Undone {
		done[as.AssignmentID] = as
	}
	before, err := k.store.Content.Fold(ctx, k.Workspace, steps())
	return treeSide{phase + " as it was sent back", before.Manifest}, treeSide{k.Session + " after " + phase, after.Manifest}, err
}

// finished is the finished work of a session, by assignment. A phase that has none is an error.
func (k kept) finished(phase string) (map[spec.AssignmentID]session.CheckpointAssignment, error) {
	if err := CheckPhase(k.team, "which", phase); err != nil {
		return nil, err
	}
	done := map[spec.AssignmentID]session.CheckpointAssignment{}
	var finished []string
	for _, as := range k.Assignments {
		done[as.AssignmentID] = as
		if !slices.Contains(finished, as.Phase) {
			finished = append(finished, as.Phase)
		}
	}
	if slices.Contains(finished, phase) {
		return done, nil
	}
	have := "no phase has any yet"
	if len(finished) > 0 {
		have = "finished phases: " + strings.Join(finished, ", ")
	}
	return nil, notFoundf("phase %s of session %s has no finished work: %s", phase, k.Session, have)
}
