package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

// verification collects the blobs that are needed, and faults.
type verification struct {
	store  *Store
	report Report
	faults map[string]cas.Fault
	// needed has each blob to verify, and what needs it; empty: nothing needs it.
	needed map[spec.Digest]string
	// visited are the checkpoints, directories of trees, deltas and texts that were read.
	visited map[spec.Digest]bool
	// without are checkpoints that are about to be pruned. Blobs that only they refer to are not
	// needed.
	without map[spec.Digest]bool
	// among has the blobs of an archive: a digest of another blob in a text is no reference. Nil: every blob of the store counts.
	among map[spec.Digest]int64
}

func newVerification(s *Store) *verification {
	return &verification{
		store: s, faults: map[string]cas.Fault{}, needed: map[spec.Digest]string{},
		visited: map[spec.Digest]bool{}, without: map[spec.Digest]bool{},
	}
}

// fault records the faults in an error and returns the rest of the error.
func (v *verification) fault(err error, neededBy string) error {
	faults, rest := faultsIn(err)
	for _, f := range faults {
		if _, ok := v.faults[f.Path]; !ok {
			v.faults[f.Path] = withNeed(f, neededBy)
		}
	}
	return rest
}

// joined are the recorded faults as an error.
func (v *verification) joined() error {
	var faults []error
	for _, path := range slices.Sorted(maps.Keys(v.faults)) {
		f := v.faults[path]
		faults = append(faults, &f)
	}
	return errors.Join(faults...)
}

func (v *verification) need(name spec.Digest, by string) {
	if name != "" && v.needed[name] == "" {
		v.needed[name] = by
	}
}

// roots records everything that rows name, directly or not.
func (v *verification) roots(ctx context.Context, roots []state.Root) error {
	for _, r := range roots {
		if r.Kind == state.RootCheckpoint && v.without[r.Digest()] {
			continue
		}
		if err := v.reach(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (v *verification) reach(ctx context.Context, r state.Root) error {
	if r.Kind == state.RootText {
		return v.named(ctx, []byte(r.Text), r.By)
	}
	name := r.Digest()
	switch r.Kind {
	case state.RootTree:
		return v.tree(ctx, name, r.By, false)
	case state.RootDelta:
		return v.contents(ctx, nil, []spec.Digest{name}, r.By)
	case state.RootBlob, state.RootCheckpoint, state.RootText:
	}
	v.need(name, r.By)
	if r.Kind == state.RootBlob || v.visited[name] {
		return nil
	}
	v.visited[name] = true
	c, err := readCheckpoint(ctx, v.store.Content, name)
	if err != nil {
		return v.fault(err, r.By)
	}
	return v.checkpoint(ctx, c, r.By)
}

func (v *verification) checkpoint(ctx context.Context, c session.Checkpoint, by string) error {
	v.need(c.Team.Blob, by)
	for _, a := range c.Artifacts {
		v.need(a.SHA256, by)
	}
	var deltas []spec.Digest
	for _, a := range c.All() {
		deltas = append(deltas, a.Delta)
		for _, w := range a.Integrated {
			deltas = append(deltas, w.Delta)
		}
	}
	return v.contents(ctx, []spec.Digest{c.Workspace, c.Tree}, deltas, by)
}

// contents records manifests, deltas and everything that they refer to.
func (v *verification) contents(ctx context.Context, manifests, deltas []spec.Digest, by string) error {
	for _, name := range manifests {
		if err := v.tree(ctx, name, by, false); err != nil {
			return err
		}
	}
	for _, name := range deltas {
		if name == "" || v.visited[name] {
			continue
		}
		v.visited[name] = true
		d, err := v.store.Content.Delta(ctx, name)
		if err := v.fault(err, by); err != nil {
			return err
		}
		v.need(name, by)
		for p, c := range d {
			v.need(c.SHA256, by+" for "+p)
		}
	}
	return nil
}

// tree records the blobs of a tree, and skips directories that were visited. With anywhere, the
// tree may be a subdirectory of another tree.
func (v *verification) tree(ctx context.Context, name spec.Digest, by string, anywhere bool) error {
	if name == "" {
		return nil
	}
	for n, err := range v.store.Content.TreeBlobs(ctx, name, v.visited, anywhere) {
		whose := by
		if n.Path != "" {
			whose += " for " + n.Path
		}
		if err := v.fault(err, whose); err != nil {
			return err
		}
		v.need(n.Blob, whose)
	}
	return nil
}

// digests matches possible digests of blobs.
var digests = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// named records the blobs that a text names, and everything that these refer to. Its format belongs to others, so every
// digest of an existing blob in it counts as a reference.
func (v *verification) named(ctx context.Context, text []byte, by string) error {
	for _, match := range digests.FindAll(text, -1) {
		if err := v.below(ctx, spec.Digest(match), by); err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
	return nil
}

// below records a blob of any kind, and everything that it refers to. The error is [storage.ErrNotFound] if there is none.
func (v *verification) below(ctx context.Context, name spec.Digest, by string) error {
	if _, ok := v.among[name]; v.among != nil && !ok {
		return storage.ErrNotFound
	}
	kind, err := v.store.kindOf(ctx, name)
	if errors.Is(err, storage.ErrNotFound) {
		return err
	}
	if err != nil {
		return fmt.Errorf("read blob %s: %w", name.Short(), err)
	}
	v.need(name, by)
	if kind == state.RootTree {
		return v.tree(ctx, name, by, true)
	}
	return v.reach(ctx, state.Root{Kind: kind, Text: string(name), By: by})
}

// beginnings are the first bytes of blobs that refer to other blobs. Their encoding is canonical.
var beginnings = map[state.RootKind][]byte{
	state.RootTree:       []byte(cas.TreeSchema + "\n"),
	state.RootDelta:      []byte(`{"changes":{`),
	state.RootCheckpoint: []byte(`{"schema":"` + session.CheckpointSchema + `"`),
}

// kindOf returns the kind of a blob.
func (s *Store) kindOf(ctx context.Context, name spec.Digest) (state.RootKind, error) {
	found, err := s.blobs.StatBlobs(ctx, name)
	info, ok := found[name]
	switch {
	case err != nil:
		return state.RootBlob, err
	case !ok:
		return state.RootBlob, storage.ErrNotFound
	case info.KindKnown:
		return info.Kind, nil
	}
	f, err := s.blobs.OpenBlob(ctx, name)
	if err != nil {
		return state.RootBlob, err
	}
	defer f.Close() //nolint:errcheck // only read
	head := make([]byte, 64)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return state.RootBlob, err
	}
	return kindOfHead(head[:n]), nil
}

// kindOfHead returns the kind of a blob with these first bytes.
func kindOfHead(head []byte) state.RootKind {
	for k, beginning := range beginnings {
		if bytes.HasPrefix(head, beginning) {
			return k
		}
	}
	return state.RootBlob
}
