package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

// storedSession is what the store has of a session: its newest checkpoint that can be read.
type storedSession struct {
	store.StoredCheckpoint
	store *store.Store
	key   session.Key
	team  spec.Team
}

// readSession reads what the store has of a session.
func (o *storeOpener) readSession(ctx context.Context, sessionID string) (storedSession, error) {
	s, key, err := o.stored(sessionID)
	if err != nil {
		return storedSession{}, err
	}
	k := storedSession{store: s, key: key}
	if k.StoredCheckpoint, err = o.newest(ctx, s, key); err != nil {
		return k, err
	}
	k.team, err = teamOf(ctx, s, k.StoredCheckpoint, "")
	return k, err
}

// treeSide is one side of a comparison.
type treeSide struct {
	name string
	tree spec.Digest
}

// sides finds what is to be compared. which is a phase, two phases with .. between
// them, or empty.
func (c *diffCommand) sides(ctx context.Context, k storedSession, which string, doc *diffDocument) (from, to treeSide, err error) {
	other := c.with != "" || c.dir != ""
	first, second, isRange := strings.Cut(which, "..")
	switch {
	case isRange && other:
		return from, to, usagef("%s compares two phases; with --with or --dir, give at most one phase", which)
	case isRange:
		if from, err = k.after(ctx, first, k.input()); err == nil {
			to, err = k.after(ctx, second, k.newest())
		}
		return from, to, err
	case other:
		if from, err = k.after(ctx, which, k.newest()); err != nil {
			return from, to, err
		}
		to, err = c.compareTo(ctx, k, from)
		return from, to, err
	case which != "":
		doc.Phase = which
		return k.phase(ctx, which)
	}
	return k.input(), k.newest(), nil
}

// compareTo is what a session's tree is compared with.
func (c *diffCommand) compareTo(ctx context.Context, k storedSession, from treeSide) (treeSide, error) {
	if c.dir != "" {
		return c.directorySide(ctx, k, from)
	}
	sessionID, phase, _ := strings.Cut(c.with, ":")
	other, err := c.readSession(ctx, sessionID)
	if err != nil {
		return treeSide{}, err
	}
	return other.after(ctx, phase, other.newest())
}

// directorySide takes a directory as `run --workspace` does, and whatever is in it
// that the session's tree has.
func (c *diffCommand) directorySide(ctx context.Context, k storedSession, from treeSide) (treeSide, error) {
	dir, err := directory(c.cwd, "--dir", c.dir)
	if err != nil {
		return treeSide{}, err
	}
	known, err := k.store.Content.Paths(ctx, from.tree)
	if err != nil {
		return treeSide{}, err
	}
	snap, err := k.store.Content.Snapshot(ctx, dir, cas.SnapshotOptions{
		Ignore: k.team.Ignore, Include: append(sourceOf(k.store, k.key).Include, c.include...), Known: known,
	})
	if err != nil {
		return treeSide{}, err
	}
	if len(snap.Private) > 0 {
		c.printErr("not taken from %s, because they look like secrets: %s (--include takes them)", dir, firstOf(snap.Private, 5))
	}
	return treeSide{dir, snap.Manifest}, nil
}

// input is the tree at the session's start, newest the current one.
func (k storedSession) input() treeSide { return treeSide{"the start of " + k.Session, k.Workspace} }

func (k storedSession) newest() treeSide {
	name := "the newest tree of " + k.Session
	if k.CurrentPhase != spec.ReservedPhase {
		name += ", after " + k.CurrentPhase
	}
	return treeSide{name, k.Tree}
}

// after is the tree after a phase; without a phase, the default.
func (k storedSession) after(ctx context.Context, phase string, usual treeSide) (treeSide, error) {
	if phase == "" {
		return usual, nil
	}
	_, to, err := k.phase(ctx, phase)
	return to, err
}

// phase is a phase's input tree, and that tree with its work.
func (k storedSession) phase(ctx context.Context, phase string) (from, to treeSide, err error) {
	if err := checkPhase(k.team, "artifacts diff", phase); err != nil {
		return from, to, err
	}
	done := map[spec.AssignmentID]session.CheckpointAssignment{}
	var finished []string
	for _, as := range k.Assignments {
		done[as.AssignmentID] = as
		if !slices.Contains(finished, as.Phase) {
			finished = append(finished, as.Phase)
		}
	}
	if !slices.Contains(finished, phase) {
		have := "no phase has any yet"
		if len(finished) > 0 {
			have = "finished phases: " + strings.Join(finished, ", ")
		}
		return from, to, usagef("phase %s of session %s has no finished work: %s", phase, k.Session, have)
	}
	above := k.team.Ancestors(phase)
	before, err := k.store.Content.Fold(ctx, k.Workspace, session.Steps(k.team, above, done))
	if err != nil {
		return from, to, err
	}
	after, err := k.store.Content.Fold(ctx, k.Workspace, session.Steps(k.team, append(slices.Clone(above), phase), done))
	return treeSide{k.Session + " before " + phase, before.Manifest}, treeSide{k.Session + " after " + phase, after.Manifest}, err
}
