package cas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Collect compares a directory with the tree that it was filled from and stores what changed.
// When it returns, the delta, the output and everything that they refer to survive a power loss.
//
// Collect leaves out .git, and files that are ignored by default, by the directory's own
// .gitignore files or by req.Ignore. Files of the base tree are compared even if they are
// ignored. Empty directories are not part of a tree.
//
// With req.Lower, the directory is the upper layer of an overlay over that tree, and only the
// upper layer is read. If base and lower are the same tree, the result is that of collecting the
// merged directory. Otherwise all files of the lower tree are taken as they are: they are neither
// ignored nor searched for secrets. With req.Only, the lower tree is that of req.On.
//
// What no tree can hold is left out and listed: a socket, a device, a link that leads out, a file above the limit (whose
// old version stays). The error is a [*failures.Failure] of category invalid_output that names the path if such a path is
// one of req.Produces, or if a file contains a secret. Nothing may write to the directory during the call; a change
// that is detected is an error. If the disk becomes full, nothing of the collection is kept.
func (s *Store) Collect(ctx context.Context, req session.Collect) (session.Collected, error) {
	out, err := s.collect(ctx, req)
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return session.Collected{}, failures.Failf(failures.InvalidOutput, "%s", textfmt.Shorten(refused.Error(), session.MaxMessage))
	}
	if err != nil {
		return session.Collected{}, fmt.Errorf("collect %s: %w", req.Dir, err)
	}
	return out, nil
}

func (s *Store) collect(ctx context.Context, req session.Collect) (out session.Collected, err error) {
	if err := errors.Join(checkPatterns(req.Produces), checkPatterns(req.Only), checkPatterns(req.Protected)); err != nil {
		return out, err
	}
	base := s.emptyTree()
	if req.Base != "" {
		if base, err = s.Tree(ctx, req.Base); err != nil {
			return out, err
		}
	}
	before := base // the assumed content of the directory, except for req.Only
	if req.On != "" {
		if before, err = s.Tree(ctx, req.On); err != nil {
			return out, err
		}
	}
	lower, err := s.lowerOf(ctx, req.Lower, before)
	if err != nil {
		return out, err
	}
	left := &leftOut{}
	in, err := s.ingest(ctx, req, before, lower, left)
	defer func() { err = errors.Join(err, in.close()) }()
	if err != nil {
		return out, err
	}
	target, err := in.target(ctx, before, lower, req.Only)
	if err != nil {
		return out, err
	}
	delta, err := Diff(ctx, base, target)
	if err != nil {
		return out, err
	}
	if out.Protected = delta.matching(req.Protected); len(out.Protected) > 0 {
		if err := target.protect(ctx, base, out.Protected); err != nil {
			return out, err
		}
		if delta, err = Diff(ctx, base, target); err != nil {
			return out, err
		}
	}
	if target.Files() > s.options.Limits.Files {
		return out, tooManyFiles(".", s.options.Limits.Files)
	}
	if most := max(s.options.Limits.TreeBytes, before.Bytes()); target.Bytes() > most {
		return out, treeTooLarge(".", most)
	}
	left.sort()
	out.Ignored, out.LeftOut = left.skipped, left.odd
	out.Output, out.Changed, out.Deleted = target.top.digest(), delta.Changed(), delta.Deleted()
	if out.Delta, err = in.save(ctx, delta, target); err != nil {
		return session.Collected{}, err
	}
	return out, nil
}

// save stores the delta and the target tree durably, in one commit with the ingested files.
// Nothing refers to any of them before.
func (in *ingestion) save(ctx context.Context, delta Delta, target *Tree) (spec.Digest, error) {
	data, err := EncodeDelta(delta)
	if err != nil {
		return "", fmt.Errorf("write a delta: %w", err)
	}
	name := spec.DigestOf(data)
	if err := in.blobs.Put(ctx, name, data); err != nil {
		return "", fmt.Errorf("store a delta: %w", err)
	}
	return name, in.saveTree(ctx, target)
}

// saveTree stores a tree durably, in one commit with the ingested files.
func (in *ingestion) saveTree(ctx context.Context, t *Tree) error {
	if err := t.top.store(ctx, in.blobs.Put); err != nil {
		return fmt.Errorf("store a tree: %w", err)
	}
	if err := in.blobs.Commit(ctx); err != nil {
		return fmt.Errorf("write to the store: %w", err)
	}
	return nil
}

// ingest scans the request's directory and stores what it holds.
func (s *Store) ingest(ctx context.Context, req session.Collect, before *Tree, lower *lowerTree, left *leftOut) (_ *ingestion,
	err error,
) {
	dir, err := filepath.Abs(req.Dir)
	if err != nil {
		return nil, err
	}
	top, err := openTop(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, &RefusedError{".", "the working directory was removed or replaced; do not move it"}
	}
	if err != nil {
		return nil, ofTree(".", "opened", err)
	}
	defer closing(top, &err)
	sc := &scanner{
		top: top, base: before, lower: lower, fixModes: true, only: req.Only,
		limits: s.options.Limits, most: max(s.options.Limits.TreeBytes, before.Bytes()),
		extra:  parseIgnore(nil, ".", strings.Join(req.Ignore, "\n")),
		wanted: append(patterns(req.Produces), req.Only...), left: left, roots: []string{dir, session.RoomTree},
	}
	if err := sc.scan(ctx); err != nil {
		return nil, err
	}
	in := &ingestion{store: s, root: top, files: sc.files, secrets: cmp.Or(req.Secrets, secrets.New(nil)), fixModes: true}
	return in, in.run(ctx)
}

// target returns the tree that results from the collection, or from what matches only in it. An empty only matches everything.
func (in *ingestion) target(ctx context.Context, before *Tree, lower *lowerTree, only patterns) (*Tree, error) {
	gone := []string{"."} // a whole directory has all that stays
	switch {
	case lower != nil:
		before, gone = lower.Tree, lower.removed
	case len(only) == 0:
		return in.store.TreeOf(in.manifest()), nil
	}
	t := before.copied()
	for _, at := range gone {
		err := before.walk(ctx, at, func(p string, _ Entry) error {
			if len(only) > 0 && !only.match(p) {
				return nil
			}
			return t.remove(ctx, p)
		})
		if err != nil {
			return nil, err
		}
	}
	return t, t.setAll(ctx, in.manifest())
}
