package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

// sweepBatch is how many blobs are removed before the sweep lock is released for a moment.
const sweepBatch = 5000

// mark records every blob that rows need.
func (p *pruning) mark(ctx context.Context) error {
	roots, err := p.store.State.Roots(ctx, session.Key{})
	if err == nil {
		err = p.marks.roots(ctx, roots)
	}
	if err != nil {
		return err
	}
	return p.refuse(p.marks.joined())
}

// sweep removes the blobs that are neither needed nor young. Blobs that refer to others are
// removed first, so that the others cannot be reached any more. Each blob is checked again under
// the sweep lock.
func (p *pruning) sweep(ctx context.Context) error {
	structured, plain, err := p.candidates(ctx)
	if err != nil {
		return err
	}
	if p.options.DryRun {
		return p.remove(append(structured, plain...), func(spec.Digest) error { return nil })
	}
	if err := p.store.files.SweepBlobs(func(remove func(spec.Digest) error) error {
		return p.sweepTrees(ctx, structured,
			remove)
	}); err != nil {
		return err
	}
	for batch := range slices.Chunk(plain, sweepBatch) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.store.files.SweepBlobs(func(remove func(spec.Digest) error) error { return p.remove(batch, remove) }); err != nil {
			return err
		}
	}
	return nil
}

// candidates lists the blobs that may be removed: those that refer to others, and the rest. Blobs
// that a young blob refers to are needed.
func (p *pruning) candidates(ctx context.Context) (structured, plain []spec.Digest, err error) {
	var all []spec.Digest
	err = p.store.files.ListBlobs(ctx, func(name spec.Digest) { all = append(all, name) }, func(string, string) {})
	if err != nil {
		return nil, nil, fmt.Errorf("list the blobs: %w", err)
	}
	slices.Sort(all)
	var loose []spec.Digest
	for _, name := range all {
		if p.marks.needed[name] != "" {
			continue
		}
		young, err := p.isYoung(name)
		if err == nil && young {
			err = p.markNamed(ctx, name)
		} else if err == nil {
			loose = append(loose, name)
		}
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return nil, nil, err
		}
	}
	var trees []spec.Digest // after what names them: no remaining checkpoint refers to a removed tree if a removal is interrupted
	for _, name := range loose {
		if p.marks.needed[name] != "" {
			continue
		}
		k, err := kindOf(p.store.files, name)
		switch {
		case errors.Is(err, storage.ErrNotFound):
		case err != nil:
			return nil, nil, fmt.Errorf("read blob %s: %w", name.Short(), err)
		case k == state.RootBlob:
			plain = append(plain, name)
		case k == state.RootTree:
			trees = append(trees, name)
		default:
			structured = append(structured, name)
		}
	}
	return append(structured, trees...), plain, nil
}

func (p *pruning) isYoung(name spec.Digest) (bool, error) {
	info, err := p.store.files.StatBlob(name)
	return err == nil && !info.Used.Before(p.horizon), err
}

// markNamed marks everything that a blob refers to as needed: the row that names the blob may not be written yet. A damaged
// blob refers to nothing.
func (p *pruning) markNamed(ctx context.Context, name spec.Digest) error {
	found := maps.Clone(p.marks.faults)
	err := p.marks.below(ctx, name, "blob "+string(name))
	p.marks.faults = found
	return err
}

// sweepTrees removes blobs that refer to others. It keeps those that were used since they were
// listed, and everything that they refer to.
func (p *pruning) sweepTrees(ctx context.Context, names []spec.Digest, remove func(spec.Digest) error) error {
	var old []spec.Digest
	for _, name := range names {
		young, err := p.isYoung(name)
		if err == nil && young {
			err = p.markNamed(ctx, name)
		} else if err == nil {
			old = append(old, name)
		}
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
	return p.remove(old, remove)
}

// remove removes those of the blobs that are not needed and still old.
func (p *pruning) remove(names []spec.Digest, remove func(spec.Digest) error) error {
	for _, name := range names {
		info, err := p.store.files.StatBlob(name)
		if errors.Is(err, storage.ErrNotFound) || p.marks.needed[name] != "" {
			continue
		}
		if err == nil && !info.Used.Before(p.horizon) {
			continue
		}
		if err == nil {
			err = remove(name)
		}
		if err != nil {
			return fmt.Errorf("remove blob %s: %w", name.Short(), err)
		}
		p.report.Blobs++
		p.report.Bytes += info.Size
	}
	return nil
}
