package cas

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
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
// With req.Lower, the directory has only what differs from that tree, and only that is
// looked at. The result is that of the whole tree if base and lower are the same. If not,
// what the lower tree has, in whatever files, counts as it is: it is neither ignored nor
// searched for secrets.
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
	if err := errors.Join(checkPatterns(req.Produces), checkPatterns(req.Only), checkPatterns(req.Protected)); err != nil {
		return out, err
	}
	base, err := s.shared(ctx, req.Base)
	if err != nil {
		return out, err
	}
	before := base // what the directory is taken to hold besides req.Only
	if len(req.Only) > 0 && req.On != "" {
		on, err := s.Delta(ctx, req.On)
		if err != nil {
			return out, err
		}
		before = newDecoded("", Apply(base.Manifest, on), storage.BlobInfo{})
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
	target := in.target(before.Manifest, req.Only)
	delta := target.changes
	if delta == nil || req.Base != req.Lower {
		delta = Diff(base.Manifest, target.Manifest)
	}
	if out.Protected = delta.matching(req.Protected); len(out.Protected) > 0 {
		target = outcome{Manifest: protect(base.Manifest, target.Manifest, out.Protected)}
		delta = Diff(base.Manifest, target.Manifest)
	}
	if len(target.Manifest) > s.limits.Files {
		return out, &RefusedError{".", fmt.Sprintf("has %d files; at most %d are allowed", len(target.Manifest), s.limits.Files)}
	}
	out.Output = req.Base
	out.Changed, out.Deleted = delta.Changed(), delta.Deleted()
	if out.Delta, err = in.document(EncodeDelta(delta)); err != nil {
		return out, err
	}
	names := []spec.Digest{out.Delta}
	if len(delta) > 0 {
		if out.Output, err = in.document(target.encoded()); err != nil {
			return out, err
		}
		names = append(names, out.Output)
	}
	// All at once: nothing refers to any of it before this returns.
	if err := in.flush(names...); err != nil || len(delta) == 0 {
		return out, err
	}
	s.remember(out.Output, target.Manifest, target.paths)
	return out, nil
}

// ingest scans the request's directory and stores what it holds.
func (s *Store) ingest(ctx context.Context, req session.Collect, before *decoded) (_ *ingestion, err error) {
	lower, err := s.lowerOf(ctx, req.Lower)
	if err != nil {
		return nil, err
	}
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
		root: root, base: before.paths(), lower: lower, limits: s.limits, most: max(s.limits.TreeBytes, before.bytes()), mend: true, only: req.Only,
		extra:  parseIgnore(nil, ".", strings.Join(req.Ignore, "\n")),
		wanted: append(patterns(req.Produces), req.Only...),
	}
	if err := sc.scan(ctx); err != nil {
		return nil, err
	}
	if lower != nil && len(req.Only) == 0 {
		if err := lower.check(sc.files, s.limits, sc.most); err != nil {
			return nil, err
		}
	}
	in := &ingestion{store: s, root: root, base: before.Manifest, lower: lower, secrets: secrets.New(req.Secrets), mend: true}
	if !req.Unseen && lower == nil {
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

// outcome is the tree that a collection ends with.
type outcome struct {
	Manifest
	// changes are those of the lower tree, and paths the tree's, sorted; nil: nobody has
	// found out.
	changes Delta
	paths   []string
}

func (in *ingestion) target(before Manifest, only patterns) outcome {
	switch {
	case in.lower != nil && len(only) > 0:
		return outcome{Manifest: in.lower.over(before, in.tree, only)}
	case in.lower != nil:
		return in.lower.with(in.tree)
	case len(only) > 0:
		return outcome{Manifest: overlay(before, in.tree, only)}
	}
	return outcome{Manifest: in.tree}
}

// encoded is the tree's blob. Of one whose changes are known, only these are checked: the
// lower tree was sound.
func (t outcome) encoded() ([]byte, error) {
	if t.changes == nil {
		return EncodeManifest(t.Manifest)
	}
	if err := t.changes.Check(); err != nil {
		return nil, err
	}
	for p, c := range t.changes {
		if under := below(t.paths, p); !c.Deleted && len(under) > 0 {
			return nil, fmt.Errorf("%q cannot be a file, because %q exists", p, under[0])
		}
		for dir := path.Dir(p); !c.Deleted && dir != "."; dir = path.Dir(dir) {
			if _, ok := t.Manifest[dir]; ok {
				return nil, fmt.Errorf("%q cannot be a file, because %q exists", dir, p)
			}
		}
	}
	return t.encode(t.paths), nil
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
