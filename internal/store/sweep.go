package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

// sweepBatch is how many blobs are removed before the sweep lock is released for a moment.
const sweepBatch = 5000

// blobKind is the kind of a blob, judged by its first bytes.
type blobKind int

const (
	plainBlob blobKind = iota
	treeBlob           // a directory of a tree
	deltaBlob
	checkpointBlob
)

// beginnings are the first bytes of blobs that refer to other blobs. Their encoding is canonical.
var beginnings = map[blobKind][]byte{
	treeBlob:       []byte(cas.TreeSchema + "\n"),
	deltaBlob:      []byte(`{"changes":{`),
	checkpointBlob: []byte(`{"schema":"` + session.CheckpointSchema + `"`),
}

// kindOf returns the kind of a blob, judged by its first bytes.
func (s *Store) kindOf(name spec.Digest) (blobKind, error) {
	f, err := s.docs.OpenBlob(name)
	if err != nil {
		return plainBlob, err
	}
	defer f.Close() //nolint:errcheck // only read
	head := make([]byte, 64)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return plainBlob, err
	}
	for k, beginning := range beginnings {
		if bytes.HasPrefix(head[:n], beginning) {
			return k, nil
		}
	}
	return plainBlob, nil
}

// mark records every blob that sessions and registered teams need.
func (p *pruning) mark(ctx context.Context) error {
	for _, key := range p.keys {
		if err := p.marks.session(ctx, key); err != nil {
			return err
		}
	}
	if err := p.marks.teams(ctx); err != nil {
		return err
	}
	var faults []error
	for _, path := range slices.Sorted(maps.Keys(p.marks.faults)) {
		if f := p.marks.faults[path]; !harmless(f) {
			faults = append(faults, &f)
		}
	}
	return p.refuse(errors.Join(faults...))
}

// harmless reports whether a fault cannot hide needed blobs. This applies to a missing copy,
// state: their content is also in checkpoints and records. A session that is
// just starting has no state yet.
func harmless(f cas.Fault) bool {
	file := path.Base(f.Path)
	return errors.Is(f.Kind, session.ErrNotFound) && (file == executionFile || strings.HasPrefix(file, checkpointPrefix))
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
		return p.count(append(structured, plain...))
	}
	if err := p.store.docs.SweepBlobs(func(remove func(spec.Digest) error) error { return p.sweepTrees(ctx, structured, remove) }); err != nil {
		return err
	}
	for batch := range slices.Chunk(plain, sweepBatch) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.store.docs.SweepBlobs(func(remove func(spec.Digest) error) error { return p.remove(batch, remove) }); err != nil {
			return err
		}
	}
	return nil
}

// candidates lists the blobs that may be removed: those that refer to others, and the rest. Blobs
// that a young blob refers to are needed.
func (p *pruning) candidates(ctx context.Context) (structured, plain []spec.Digest, err error) {
	there := newVerification(p.store)
	if err := there.allBlobs(ctx); err != nil {
		return nil, nil, err
	}
	var loose []spec.Digest
	for _, name := range slices.Sorted(maps.Keys(there.needed)) {
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
	var trees []spec.Digest
	for _, name := range loose {
		if p.marks.needed[name] != "" {
			continue
		}
		k, err := p.store.kindOf(name)
		switch {
		case errors.Is(err, storage.ErrNotFound):
		case err != nil:
			return nil, nil, fmt.Errorf("stat blob %s: %w", name.Short(), err)
		case k == plainBlob:
			plain = append(plain, name)
		case k == treeBlob:
			trees = append(trees, name)
		default:
			structured = append(structured, name)
		}
	}
	trees, err = p.parentsFirst(ctx, trees)
	return append(structured, trees...), plain, err
}

// parentsFirst sorts directories of trees so that each comes before those in it. If a removal is
// interrupted, no remaining directory refers to a removed one.
func (p *pruning) parentsFirst(ctx context.Context, dirs []spec.Digest) (sorted []spec.Digest, err error) {
	seen := map[spec.Digest]bool{}
	for _, name := range dirs {
		for n, err := range p.store.Content.TreeBlobs(ctx, name, seen, true) {
			if _, rest := faultsIn(err); rest != nil {
				return nil, rest
			}
			if _, is := slices.BinarySearch(dirs, n.Blob); n.Dir && is {
				sorted = append(sorted, n.Blob)
			}
		}
	}
	slices.Reverse(sorted)
	return sorted, nil
}

func (p *pruning) isYoung(name spec.Digest) (bool, error) {
	info, err := p.store.docs.StatBlob(name)
	return err == nil && !info.Used.Before(p.horizon), err
}

// markNamed marks everything that a blob refers to as needed: the blob may be a checkpoint,
// manifest or delta whose referring document is not written yet. A damaged blob refers to
// nothing.
func (p *pruning) markNamed(ctx context.Context, name spec.Digest) error {
	k, err := p.store.kindOf(name)
	if err != nil {
		return err
	}
	by := "blob " + string(name)
	p.marks.need(name, by)
	seen := maps.Clone(p.marks.faults)
	switch k {
	case treeBlob:
		err = p.marks.tree(ctx, name, by, true)
	case deltaBlob:
		err = p.marks.contents(ctx, nil, []spec.Digest{name}, by)
	case checkpointBlob:
		var c session.Checkpoint
		if c, err = p.store.PeekCheckpoint(ctx, name); err == nil {
			err = p.marks.checkpoint(ctx, c, by)
		}
	case plainBlob:
	}
	p.marks.faults = seen
	if errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrNotFound) {
		return nil
	}
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
		info, err := p.store.docs.StatBlob(name)
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

// count adds the blobs to the report of a dry run.
func (p *pruning) count(names []spec.Digest) error {
	for _, name := range names {
		info, err := p.store.docs.StatBlob(name)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		p.report.Blobs++
		p.report.Bytes += info.Size
	}
	return nil
}
