package cas

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

// Overlay returns the delta that lays the files of one manifest over the tree of
// another, what the tree is then, and the paths that change. A file that the
// other has and the first has not stays.
func (s trees) Overlay(ctx context.Context, base, files spec.Digest) (session.Collected, error) {
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
	// A file may take a directory's place, so the difference is of the trees.
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

// Intact looks whether the store has every file of a manifest, by name and size.
// The first that it has not is in the error, [session.ErrNotFound] or
// [session.ErrCorrupt]. Contents are not read; see [Store.VerifySession] for that.
func (s trees) Intact(ctx context.Context, manifest spec.Digest) error {
	t, err := s.Tree(ctx, manifest)
	if err != nil {
		return err
	}
	return t.walk(ctx, ".", s.present)
}

// IntactDelta looks whether the store has every file that a delta sets, as
// Intact does.
func (s trees) IntactDelta(ctx context.Context, delta spec.Digest) error {
	d, err := s.Delta(ctx, delta)
	if err != nil {
		return err
	}
	for _, p := range slices.Sorted(maps.Keys(d)) {
		if err := s.present(p, d[p].Entry); err != nil {
			return err
		}
	}
	return nil
}

func (s trees) present(p string, e Entry) error {
	if e.SHA256 == "" {
		return nil
	}
	info, err := s.in.StatBlob(e.SHA256)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return fmt.Errorf("the content of %s (%s) is missing from the store: %w", p, e.SHA256.Short(), session.ErrNotFound)
	case err != nil:
		return err
	case info.Size != e.Size:
		return fmt.Errorf("the content of %s (%s) has %d bytes instead of %d: %w", p, e.SHA256.Short(), info.Size, e.Size, session.ErrCorrupt)
	}
	return nil
}
