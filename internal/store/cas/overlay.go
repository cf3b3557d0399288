package cas

import (
	"context"
	"fmt"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Overlay puts the files of one manifest over the tree of another. It returns the delta, the
// resulting tree and the changed paths. Files that only the base has are kept.
func (s *Store) Overlay(ctx context.Context, base, files spec.Digest) (session.Collected, error) {
	before, err := s.Tree(ctx, base)
	if err != nil {
		return session.Collected{}, err
	}
	over, err := s.Manifest(ctx, files)
	if err != nil {
		return session.Collected{}, err
	}
	after := before.copied()
	if err := after.setAll(ctx, over); err != nil {
		return session.Collected{}, err
	}
	// A file may replace a directory, so compare the whole trees.
	d, err := Diff(ctx, before, after)
	if err != nil {
		return session.Collected{}, err
	}
	out := session.Collected{Changed: d.Changed(), Deleted: d.Deleted()}
	if out.Delta, err = s.PutDelta(ctx, d); err != nil {
		return session.Collected{}, err
	}
	out.Output, err = s.putTree(ctx, after)
	return out, err
}

// Intact checks whether the store has a blob of the right size for every file of a manifest. The
// error names the first one that is missing or has another size: [session.ErrNotFound] or
// [session.ErrCorrupt]. Contents are not read; [Store.VerifySession] does that.
func (s *Store) Intact(ctx context.Context, manifest spec.Digest) error {
	t, err := s.Tree(ctx, manifest)
	if err != nil {
		return err
	}
	files, err := t.Manifest(ctx)
	if err != nil {
		return err
	}
	return s.present(ctx, files)
}

// IntactDelta is [Store.Intact] for the files that a delta sets.
func (s *Store) IntactDelta(ctx context.Context, delta spec.Digest) error {
	d, err := s.Delta(ctx, delta)
	if err != nil {
		return err
	}
	files := Manifest{}
	for p, c := range d {
		files[p] = c.Entry
	}
	return s.present(ctx, files)
}

// present checks whether the store has the content of all files.
func (s *Store) present(ctx context.Context, files Manifest) error {
	found, err := s.backend.StatBlobs(ctx, files.blobs()...)
	if err != nil {
		return err
	}
	for p, e := range files.sorted() {
		switch info, ok := found[e.SHA256]; {
		case e.SHA256 == "":
		case !ok:
			return fmt.Errorf("the content of %s (%s) is missing from the store: %w", p, e.SHA256.Short(), session.ErrNotFound)
		case info.Size != e.Size:
			return fmt.Errorf("the content of %s (%s) has %d bytes instead of %d: %w", p, e.SHA256.Short(), info.Size, e.Size,
				session.ErrCorrupt)
		}
	}
	return nil
}
