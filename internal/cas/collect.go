package cas

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/secrets"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// Collect compares a directory with the tree that it was filled from and stores
// what changed. When it returns, delta, output and all that they name outlive a
// power loss.
//
// Left out are .git, always, and what is ignored: by default, by the
// directory's own .gitignore files, by req.Ignore. What the base has is compared
// even if it is ignored. Empty directories do not count.
//
// What may not be kept is a [*failures.Failure] of category invalid_output that
// names the path: a device, a link that leads out, a file that is too large or
// holds a secret. Nothing may write to the directory meanwhile; a change that is
// noticed is an error. Of a collection for which the disk has no room, nothing stays.
func (s *Store) Collect(ctx context.Context, req session.Collect) (session.Collected, error) {
	out, err := s.collect(ctx, req)
	var refused *RefusedError
	if errors.As(err, &refused) {
		return session.Collected{}, failures.Failf(failures.InvalidOutput, "%s", textfmt.Shorten(refused.Error(), session.MaxMessage))
	}
	if err != nil {
		return session.Collected{}, fmt.Errorf("collect %s: %w", req.Dir, err)
	}
	return out, nil
}

func (s *Store) collect(ctx context.Context, req session.Collect) (out session.Collected, err error) {
	if err := errors.Join(checkPatterns(req.Produces), checkPatterns(req.Only)); err != nil {
		return out, err
	}
	base, err := s.Manifest(ctx, req.Base)
	if err != nil {
		return out, err
	}
	before := base // what the directory is taken to hold besides req.Only
	if len(req.Only) > 0 && req.On != "" {
		on, err := s.Delta(ctx, req.On)
		if err != nil {
			return out, err
		}
		before = Apply(base, on)
	}
	in, err := s.ingest(ctx, req, before)
	defer func() {
		if in != nil && storage.IsFull(err) {
			err = errors.Join(err, in.withdraw())
		}
	}()
	if err != nil {
		return out, err
	}
	target := in.tree
	if len(req.Only) > 0 {
		target = overlay(before, in.tree, req.Only)
	}
	if len(target) > s.limits.Files {
		return out, &RefusedError{".", fmt.Sprintf("has %d files; at most %d are allowed", len(target), s.limits.Files)}
	}
	out.Output = req.Base
	delta := Diff(base, target)
	out.Changed, out.Deleted = delta.Changed(), delta.Deleted()
	if out.Delta, err = in.document(EncodeDelta(delta)); err != nil {
		return out, err
	}
	names := []spec.Digest{out.Delta}
	if len(delta) > 0 {
		if out.Output, err = in.document(EncodeManifest(target)); err != nil {
			return out, err
		}
		names = append(names, out.Output)
	}
	// All at once: nothing refers to any of it before this returns.
	return out, in.flush(names...)
}

// ingest scans the request's directory and stores what it holds.
func (s *Store) ingest(ctx context.Context, req session.Collect, before Manifest) (_ *ingestion, err error) {
	dir, err := filepath.Abs(req.Dir)
	if err != nil {
		return nil, err
	}
	root, err := openDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, &RefusedError{".", "the working directory was removed or replaced; do not move it"}
	}
	if err != nil {
		return nil, ofTree(".", "opened", err)
	}
	defer closing(root, &err)
	sc := &scanner{
		root: root, base: before.Paths(), limits: s.limits, most: max(s.limits.TreeBytes, before.bytes()), mend: true, only: req.Only,
		extra:  parseIgnore(nil, ".", strings.Join(req.Ignore, "\n")),
		wanted: append(patterns(req.Produces), req.Only...),
	}
	if err := sc.scan(ctx); err != nil {
		return nil, err
	}
	in := &ingestion{store: s, root: root, base: before, secrets: secrets.New(req.Secrets), mend: true}
	if !req.Unseen {
		in.index = s.loadIndex(dir, s.in)
	}
	return in, in.run(ctx, sc.files)
}

// bytes is the size of the manifest's files together.
func (m Manifest) bytes() (n int64) {
	for _, e := range m {
		n += e.Size
	}
	return n
}

// overlay returns the tree in which the paths that match only are as found.
func overlay(before, found Manifest, only patterns) Manifest {
	t := newTree(before)
	for p := range before {
		if _, ok := found[p]; !ok && only.match(p) {
			t.remove(p)
		}
	}
	for p, e := range found {
		t.set(p, e)
	}
	return t.files
}
