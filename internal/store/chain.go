package store

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

// Checkpoints lists a session's checkpoints, the newest first. It starts at the head that
// execution_state.json names and follows Previous. Damaged and missing checkpoints are reported
// in the error, which is [session.ErrCorrupt] or [session.ErrNotFound] for each of them. The list
// then has all checkpoints that can be read; its first element is the last good checkpoint.
// Pruned checkpoints are neither listed nor reported.
// If a blob is missing and its checkpoint_<phase>.json is intact, the blob is stored again, if
// the store can be written.
func (s *checkpoints) Checkpoints(ctx context.Context, key session.Key) ([]StoredCheckpoint, error) {
	w, err := s.walk(ctx, key)
	if err != nil {
		return nil, err
	}
	return w.sorted(w.head), errors.Join(w.faults...)
}

// walk finds a session's checkpoints. It returns an error only if the store cannot be used.
func (s *checkpoints) walk(ctx context.Context, key session.Key) (*chainWalk, error) {
	w := &chainWalk{store: s, key: key, seen: map[spec.Digest]bool{}}
	if err := w.readCopies(ctx); err != nil {
		return nil, err
	}
	notes, _, err := s.notes(key)
	if errors.Is(err, session.ErrCorrupt) {
		w.faults = append(w.faults, err)
	} else if err != nil {
		return nil, err
	}
	w.pruned = notes.names()
	e, err := s.sessions.Execution(key)
	switch {
	case err == nil:
		w.head = e.Checkpoint
	case errors.Is(err, session.ErrCorrupt):
		w.faults = append(w.faults, err)
	case !errors.Is(err, session.ErrNotFound):
		return nil, err
	}
	// Copies lead to checkpoints behind a broken link of the chain, and if the head is outdated
	// or unknown.
	for _, name := range append([]spec.Digest{w.head}, slices.Sorted(maps.Keys(w.copies))...) {
		if err := w.follow(ctx, name); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// chainWalk collects the checkpoints of a session.
type chainWalk struct {
	store *checkpoints
	key   session.Key
	head  spec.Digest
	// copies are the session's checkpoint_<phase>.json files, by digest.
	copies map[spec.Digest][]byte
	// pruned are the session's pruned checkpoints.
	pruned map[spec.Digest]bool
	// prunedElsewhere are checkpoints that the session's origin lists as pruned.
	prunedElsewhere []spec.Digest
	seen            map[spec.Digest]bool
	found           []StoredCheckpoint
	faults          []error
}

func (w *chainWalk) readCopies(ctx context.Context) error {
	dir, err := documentKey(w.key)
	if err != nil {
		return err
	}
	files, err := w.store.jsonFiles(ctx, dir, checkpointPrefix)
	if err != nil {
		return err
	}
	w.copies = make(map[spec.Digest][]byte, len(files))
	for _, phase := range slices.Sorted(maps.Keys(files)) {
		c, err := w.store.readCopy(w.key, phase)
		switch {
		case err == nil:
			w.copies[c.of] = c.data
		case errors.Is(err, session.ErrCorrupt):
			w.faults = append(w.faults, err)
		case err != nil && !errors.Is(err, session.ErrNotFound):
			return err
		}
	}
	return nil
}

// follow follows the chain from a checkpoint to its beginning, to a checkpoint that was visited,
// or to a fault. It returns an error only if the store cannot be used.
func (w *chainWalk) follow(ctx context.Context, name spec.Digest) error {
	for name != "" && !w.seen[name] && !w.pruned[name] {
		w.seen[name] = true
		c, err := w.read(ctx, name)
		if errors.Is(err, session.ErrNotFound) {
			pruned, err := w.store.prunedAnywhere(ctx, name)
			if err != nil {
				return err
			}
			if pruned {
				w.prunedElsewhere = append(w.prunedElsewhere, name)
				return nil
			}
		}
		if errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrNotFound) {
			w.faults = append(w.faults, err)
			return nil
		}
		if err != nil {
			return err
		}
		w.found = append(w.found, StoredCheckpoint{name, c})
		name = c.Previous
	}
	return nil
}

// read reads a checkpoint. If its blob is damaged or missing and there is a copy, the blob is
// stored again.
func (w *chainWalk) read(ctx context.Context, name spec.Digest) (session.Checkpoint, error) {
	c, err := w.store.readCheckpoint(ctx, name)
	data, ok := w.copies[name]
	if ok && (errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrNotFound)) {
		// If the store cannot be written, use the copy.
		if _, failed := w.store.content.PutBlob(ctx, data); failed == nil {
			err = repaired(err, "the blob was rewritten from the checkpoint's copy")
		}
		w.faults = append(w.faults, err)
		return w.store.decodeCheckpoint(data)
	}
	return c, err
}

// sorted lists the checkpoints so that each comes before its Previous. If there are several ends,
// those that continue from the head come first, then the later incarnation, then the later time.
func (w *chainWalk) sorted(head spec.Digest) []StoredCheckpoint {
	at := map[spec.Digest]StoredCheckpoint{}
	inner := map[spec.Digest]bool{}
	for _, c := range w.found {
		at[c.Name] = c
		inner[c.Previous] = true
	}
	chain := func(name spec.Digest) (names []spec.Digest) {
		for c, ok := at[name]; ok; c, ok = at[c.Previous] {
			names = append(names, c.Name)
		}
		return names
	}
	fromHead := func(c StoredCheckpoint) int {
		if slices.Contains(chain(c.Name), head) {
			return 1
		}
		return 0
	}
	ends := slices.DeleteFunc(slices.Clone(w.found), func(c StoredCheckpoint) bool { return inner[c.Name] })
	slices.SortStableFunc(ends, func(a, b StoredCheckpoint) int {
		return cmp.Or(
			cmp.Compare(fromHead(b), fromHead(a)),
			cmp.Compare(b.Incarnation, a.Incarnation),
			b.CreatedAt.Compare(a.CreatedAt),
		)
	})
	out := make([]StoredCheckpoint, 0, len(w.found))
	for _, end := range ends {
		for _, name := range chain(end.Name) {
			if c, ok := at[name]; ok {
				out = append(out, c)
				delete(at, name)
			}
		}
	}
	return out
}
