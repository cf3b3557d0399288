package store

import (
	"cmp"
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

// sweepBatch is how many blobs are removed at a time: others wait meanwhile.
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

// candidate is a blob that may be removed.
type candidate struct {
	name spec.Digest
	size int64
}

// sweep removes the blobs that are neither needed nor young. Blobs that refer to others are
// removed first, so that the others cannot be reached any more.
func (p *pruning) sweep(ctx context.Context) error {
	structured, plain, err := p.candidates(ctx)
	if err != nil {
		return err
	}
	if p.options.DryRun {
		for _, c := range p.unneeded(append(structured, plain...)) {
			p.report.Blobs++
			p.report.Bytes += c.size
		}
		return nil
	}
	if err := p.sweepTrees(ctx, structured); err != nil {
		return err
	}
	for batch := range slices.Chunk(p.unneeded(plain), sweepBatch) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := p.remove(ctx, batch, false); err != nil {
			return err
		}
	}
	if p.store.bucket == nil {
		return nil
	}
	// The report counts blobs. An object is as large as those that it had, and goes after the last one.
	if _, err := p.store.bucket.SweepObjects(ctx); err != nil {
		return fmt.Errorf("remove objects without blobs: %w", err)
	}
	return nil
}

// candidates lists the blobs that may be removed: those that refer to others, and the rest. Blobs
// that a young blob refers to are needed.
func (p *pruning) candidates(ctx context.Context) (structured, plain []candidate, err error) {
	var loose []candidate
	var young []spec.Digest
	err = p.store.blobs.ListBlobs(ctx, func(name spec.Digest, info storage.BlobInfo) {
		switch {
		case p.marks.needed[name] != "":
		case info.Used.Before(p.horizon):
			loose = append(loose, candidate{name, info.Size})
		default:
			young = append(young, name)
		}
	}, func(string, string) {})
	if err != nil {
		return nil, nil, fmt.Errorf("list the blobs: %w", err)
	}
	for _, name := range young {
		if err := p.markNamed(ctx, name); err != nil {
			return nil, nil, err
		}
	}
	slices.SortFunc(loose, func(a, b candidate) int { return cmp.Compare(a.name, b.name) })
	var trees []candidate // after what names them: no remaining checkpoint refers to a removed tree if a removal is interrupted
	for _, c := range p.unneeded(loose) {
		k, err := p.store.kindOf(ctx, c.name)
		switch {
		case errors.Is(err, storage.ErrNotFound):
		case err != nil:
			return nil, nil, fmt.Errorf("read blob %s: %w", c.name.Short(), err)
		case k == state.RootBlob:
			plain = append(plain, c)
		case k == state.RootTree:
			trees = append(trees, c)
		default:
			structured = append(structured, c)
		}
	}
	return append(structured, trees...), plain, nil
}

// unneeded are those of the candidates that nothing needs.
func (p *pruning) unneeded(all []candidate) (left []candidate) {
	for _, c := range all {
		if p.marks.needed[c.name] == "" {
			left = append(left, c)
		}
	}
	return left
}

// isYoung reports whether a blob exists and is too young to be removed.
func (p *pruning) isYoung(ctx context.Context, name spec.Digest) (bool, error) {
	found, err := p.store.blobs.StatBlobs(ctx, name)
	info, ok := found[name]
	return ok && !info.Used.Before(p.horizon), err
}

// markNamed marks everything that a blob refers to as needed: the row that names the blob may not be written yet. A damaged
// blob refers to nothing.
func (p *pruning) markNamed(ctx context.Context, name spec.Digest) error {
	found := maps.Clone(p.marks.faults)
	err := p.marks.below(ctx, name, "blob "+string(name))
	p.marks.faults = found
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	return err
}

// sweepTrees removes blobs that refer to others. If one was used since they were listed, none is removed, and what the used
// one refers to is kept: the rest is tried again.
func (p *pruning) sweepTrees(ctx context.Context, names []candidate) error {
	for {
		names = p.unneeded(names)
		used, err := p.remove(ctx, names, true)
		if err != nil || len(used) == 0 {
			return err
		}
		for _, name := range used {
			p.marks.need(name, "its use")
			if err := p.markNamed(ctx, name); err != nil {
				return err
			}
		}
	}
}

// remove removes those of the blobs that are still old. With whole, it removes none if one is not.
func (p *pruning) remove(ctx context.Context, blobs []candidate, whole bool) (used []spec.Digest, err error) {
	names := make([]spec.Digest, len(blobs))
	for i, c := range blobs {
		names[i] = c.name
	}
	swept, used, err := p.store.blobs.SweepBlobs(ctx, names, p.horizon, whole)
	p.report.Blobs += swept.Blobs
	p.report.Bytes += swept.Bytes
	return used, err
}
