package store

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// checkpointDocument is a checkpoint as it is stored. It has only those assignments, artifacts
// and decisions that the earlier checkpoints in Parts do not have. So its size depends on the
// phase, not on the session.
type checkpointDocument struct {
	session.Checkpoint
	// Parts are earlier checkpoints of the session's incarnation, oldest first. The content of
	// their documents, without that of their own parts, belongs to this checkpoint.
	Parts []spec.Digest `json:"parts,omitempty"`
	// Phases is the order of the assignments of all parts.
	Phases []string `json:"phases,omitempty"`
	// Removed is the content of the parts that this checkpoint does not have.
	Removed *removedParts `json:"removed,omitempty"`
}

type removedParts struct {
	Artifacts []string `json:"artifacts,omitempty"`
	Decisions []string `json:"decisions,omitempty"`
}

// adds reports whether later checkpoints need the document.
func (d checkpointDocument) adds() bool {
	return len(d.Assignments) > 0 || len(d.Artifacts) > 0 || len(d.Decisions) > 0 || d.Removed != nil
}

// partLoader reads the document of a part.
type partLoader func(ctx context.Context, name spec.Digest) (checkpointDocument, error)

// composed returns the complete checkpoint of a document.
func composed(ctx context.Context, name spec.Digest, d checkpointDocument, load partLoader) (StoredCheckpoint, error) {
	if len(d.Parts) == 0 {
		return StoredCheckpoint{Name: name, Checkpoint: d.Checkpoint}, nil
	}
	sum := newComposition()
	for _, name := range d.Parts {
		part, err := load(ctx, name)
		if err != nil {
			return StoredCheckpoint{}, err
		}
		sum.add(part)
	}
	sum.add(d)
	return StoredCheckpoint{Name: name, Checkpoint: sum.checkpoint(d), parts: d.Parts}, nil
}

// composition adds up the content of documents, oldest first.
type composition struct {
	assignments map[spec.AssignmentID]session.CheckpointAssignment
	// order lists the assignments in the order in which they were added.
	order     []spec.AssignmentID
	artifacts map[string]session.Artifact
	decisions map[string]string
}

func newComposition() *composition {
	return &composition{
		assignments: map[spec.AssignmentID]session.CheckpointAssignment{},
		artifacts:   map[string]session.Artifact{}, decisions: map[string]string{},
	}
}

func (w *composition) add(d checkpointDocument) {
	if d.Removed != nil {
		for _, p := range d.Removed.Artifacts {
			delete(w.artifacts, p)
		}
		for _, name := range d.Removed.Decisions {
			delete(w.decisions, name)
		}
	}
	for _, a := range d.Artifacts {
		w.artifacts[a.Path] = a
	}
	maps.Copy(w.decisions, d.Decisions)
	for _, a := range d.Assignments {
		if _, ok := w.assignments[a.AssignmentID]; !ok {
			w.order = append(w.order, a.AssignmentID)
		}
		w.assignments[a.AssignmentID] = a
	}
}

// checkpoint returns a document's complete checkpoint.
func (w *composition) checkpoint(d checkpointDocument) session.Checkpoint {
	at := make(map[string]int, len(d.Phases))
	for i, phase := range d.Phases {
		at[phase] = i
	}
	order := slices.Clone(w.order)
	slices.SortStableFunc(order, func(a, b spec.AssignmentID) int { return cmp.Compare(at[a.Phase], at[b.Phase]) })
	c := d.Checkpoint
	c.Assignments, c.Artifacts = make([]session.CheckpointAssignment, 0, len(order)), make([]session.Artifact, 0, len(w.artifacts))
	for _, id := range order {
		c.Assignments = append(c.Assignments, w.assignments[id])
	}
	for _, path := range slices.Sorted(maps.Keys(w.artifacts)) {
		c.Artifacts = append(c.Artifacts, w.artifacts[path])
	}
	c.Decisions = w.decisions
	return c
}

// split returns the document of a checkpoint. Its parts are the previous checkpoint and that
// one's parts. If the previous checkpoint is of another session or incarnation, or has work that
// this one does not have, the document has no parts and the complete content.
func (s *checkpoints) split(ctx context.Context, c session.Checkpoint) (checkpointDocument, error) {
	whole := checkpointDocument{Checkpoint: c}
	if c.Previous == "" {
		return whole, nil
	}
	parts, sum, err := s.partsFor(ctx, c)
	switch {
	case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrCorrupt):
		return whole, nil
	case err != nil, len(parts) == 0:
		return whole, err
	}
	d := sum.difference(c)
	d.Parts = parts
	if sum.add(d); !sameOrder(sum.checkpoint(d), c) {
		return whole, nil
	}
	return d, nil
}

// partsFor returns the parts that a checkpoint can have, and their total content.
func (s *checkpoints) partsFor(ctx context.Context, c session.Checkpoint) (parts []spec.Digest, sum *composition, err error) {
	before, err := s.checkpoint(ctx, c.Previous)
	if err != nil || before.Session != c.Session || before.Incarnation != c.Incarnation {
		return nil, nil, err
	}
	sum = newComposition()
	for _, name := range append(slices.Clone(before.parts), c.Previous) {
		part, err := s.part(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		// The copy of a checkpoint after the same phase is about to be replaced. So that
		// checkpoint is not used as a part.
		if part.CurrentPhase != c.CurrentPhase && part.adds() {
			parts = append(parts, name)
			sum.add(part)
		}
	}
	return parts, sum, nil
}

// difference returns the document of a checkpoint that has the added documents as parts.
func (w *composition) difference(c session.Checkpoint) checkpointDocument {
	d := checkpointDocument{Checkpoint: c}
	d.Assignments, d.Artifacts, d.Decisions = []session.CheckpointAssignment{}, []session.Artifact{}, map[string]string{}
	for _, a := range c.Assignments {
		if len(d.Phases) == 0 || d.Phases[len(d.Phases)-1] != a.Phase {
			d.Phases = append(d.Phases, a.Phase)
		}
		if b, ok := w.assignments[a.AssignmentID]; !ok || !reflect.DeepEqual(a, b) {
			d.Assignments = append(d.Assignments, a)
		}
	}
	removed := removedParts{}
	there := make(map[string]bool, len(c.Artifacts))
	for _, a := range c.Artifacts {
		there[a.Path] = true
		if w.artifacts[a.Path] != a {
			d.Artifacts = append(d.Artifacts, a)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(w.artifacts)) {
		if !there[p] {
			removed.Artifacts = append(removed.Artifacts, p)
		}
	}
	for name, value := range c.Decisions {
		if has, ok := w.decisions[name]; !ok || has != value {
			d.Decisions[name] = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.decisions)) {
		if _, ok := c.Decisions[name]; !ok {
			removed.Decisions = append(removed.Decisions, name)
		}
	}
	if len(removed.Artifacts)+len(removed.Decisions) > 0 {
		d.Removed = &removed
	}
	return d
}

// sameOrder reports whether two checkpoints list the same assignments and artifacts in the
// same order.
func sameOrder(a, b session.Checkpoint) bool {
	same := func(a, b session.CheckpointAssignment) bool { return a.AssignmentID == b.AssignmentID }
	return slices.EqualFunc(a.Assignments, b.Assignments, same) && slices.Equal(a.Artifacts, b.Artifacts)
}

// maxDecodedBytes bounds a cache, by the stored size of its content in bytes.
const maxDecodedBytes = 16 << 20

// decodedCache caches decoded blobs and documents by digest. A full cache is cleared.
type decodedCache[T any] struct {
	mu    sync.Mutex
	held  map[spec.Digest]T
	bytes int
}

func (c *decodedCache[T]) get(name spec.Digest) (T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.held[name]
	return v, ok
}

func (c *decodedCache[T]) add(name spec.Digest, v T, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil || c.bytes+size > maxDecodedBytes {
		c.held, c.bytes = map[spec.Digest]T{}, 0
	}
	c.held[name] = v
	c.bytes += size
}

func (c *decodedCache[T]) remove(name spec.Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, name)
}

// part reads the document of a part, from the cache if possible.
func (s *checkpoints) part(ctx context.Context, name spec.Digest) (checkpointDocument, error) {
	if d, ok := s.parts.get(name); ok {
		return d, nil
	}
	d, size, err := s.readCheckpoint(ctx, name)
	if err == nil {
		s.parts.add(name, d, size)
	}
	return d, err
}
