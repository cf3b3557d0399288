package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/maestro-hive/maestro/internal/failpoint"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
)

const checkpointPrefix = "checkpoint_"

// StoredCheckpoint is a checkpoint and the blob that it is.
type StoredCheckpoint struct {
	Name spec.Digest
	session.Checkpoint
}

// PutCheckpoint stores a checkpoint as a blob and as checkpoint_<phase>.json,
// byte for byte the same, and returns the blob's name. When it returns, both
// outlive a power loss. Schema, Session and SHA256 are filled in.
//
// The copy is that of the newest checkpoint after the phase, by incarnation and then
// by CreatedAt: an executor that is late stores its blob and leaves a newer copy alone.
func (s *Store) PutCheckpoint(ctx context.Context, key session.Key, c session.Checkpoint) (spec.Digest, error) {
	path, err := s.CheckpointPath(key, c.CurrentPhase)
	if err != nil {
		return "", err
	}
	c.Schema, c.Session = session.CheckpointSchema, key.Session
	data, err := s.seal(c)
	if err != nil {
		return "", fmt.Errorf("write the checkpoint after %s: %w", c.CurrentPhase, err)
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	name := digestOf(data)
	if err := s.withReserve(func() error { return s.putCopied(key, c, name, path, data) }); err != nil {
		return "", fmt.Errorf("write the checkpoint after %s: %w", c.CurrentPhase, err)
	}
	return name, nil
}

// putCopied stores a blob and a copy of it at path. Both are flushed together,
// before the copy takes the place of what is there.
func (s *Store) putCopied(key session.Key, c session.Checkpoint, name spec.Digest, path string, data []byte) (err error) {
	if _, err := s.putUnflushed(name, data); err != nil {
		return err
	}
	f, err := s.temp()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	failpoint.Torn(path, f, data)
	if err := writeAll(f, data, false); err != nil {
		return err
	}
	var flush errgroup.Group
	flush.Go(func() error { return s.flushFiles([]string{s.blobPath(name)}) })
	flush.Go(func() error { return syncDir(f.Name()) }) // the same for a file
	if err := flush.Wait(); err != nil {
		return err
	}
	s.noteDurable(name)
	failpoint.Here("checkpoint stored, not copied")
	return s.withLock(key, chainLock, func() error { return s.installCopy(key, c, f.Name(), path) })
}

// installCopy renames a temporary file to a checkpoint's copy, unless the session has
// gone on since: then the file is removed. The caller holds the lock of the chain.
func (s *Store) installCopy(key session.Key, c session.Checkpoint, temp, path string) error {
	late, err := s.isSuperseded(key, c, path)
	switch {
	case err != nil:
		return err
	case late:
		return os.Remove(temp)
	}
	return s.install(temp, path, durable)
}

// isSuperseded tells whether the copy of a newer checkpoint after the phase is there. Two
// executors of one boundary write checkpoints of one time: there the mirrored state
// tells whether the session is past that boundary.
func (s *Store) isSuperseded(key session.Key, c session.Checkpoint, path string) (bool, error) {
	stored, _, err := s.readCopy(key, c.CurrentPhase, path)
	switch {
	case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrCorrupt):
		return false, nil
	case err != nil:
		return false, err
	}
	if order := stored.Compare(c); order != 0 {
		return order > 0, nil
	}
	e, err := s.Execution(key)
	if err != nil { // nothing says so
		return false, nil
	}
	return e.IsPast(c.Incarnation, c.CreatedAt), nil
}

// readCopy reads the copy of a phase's checkpoint. It is [session.ErrNotFound] if there is
// none and [session.ErrCorrupt] if it was damaged; it is then in the quarantine.
func (s *Store) readCopy(key session.Key, phase, path string) (c session.Checkpoint, data []byte, err error) {
	err = s.readDocument(path, "checkpoint", func(read []byte) (err error) {
		if c, err = s.decodeCheckpoint(read); err != nil {
			return err
		}
		if c.Session != key.Session || c.CurrentPhase != phase {
			return fmt.Errorf("it is the checkpoint after %s of session %s", c.CurrentPhase, c.Session)
		}
		data = read
		return nil
	})
	return c, data, err
}

// CheckpointPath is where the copy of a phase's checkpoint lies.
func (s *Store) CheckpointPath(key session.Key, phase string) (string, error) {
	dir, err := s.SessionDir(key)
	if err != nil {
		return "", err
	}
	if err := spec.CheckName(phase); err != nil {
		return "", fmt.Errorf("phase: %w", err)
	}
	return filepath.Join(dir, checkpointPrefix+phase+".json"), nil
}

// Checkpoint reads a checkpoint's blob, verified, its own SHA-256 too. Errors
// are those of [Store.Blob]; a blob that is no checkpoint is [session.ErrNotFound].
// Whoever reads a checkpoint is about to build on it: what it names is not pruned
// for a day.
func (s *Store) Checkpoint(ctx context.Context, name spec.Digest) (session.Checkpoint, error) {
	if name.Valid() {
		// Where the store cannot be written, nothing can be built or pruned.
		_ = s.markUsed(s.blobPath(name))
	}
	return s.checkpoint(ctx, name)
}

func (s *Store) checkpoint(ctx context.Context, name spec.Digest) (session.Checkpoint, error) {
	data, err := s.Blob(ctx, name)
	if err != nil {
		return session.Checkpoint{}, fmt.Errorf("read a checkpoint: %w", err)
	}
	c, err := s.decodeCheckpoint(data)
	if err != nil {
		return session.Checkpoint{}, s.wrongKind(name, "checkpoint", err)
	}
	return c, nil
}

func (s *Store) decodeCheckpoint(data []byte) (session.Checkpoint, error) {
	var c session.Checkpoint
	if err := s.unseal(data, &c); err != nil {
		return session.Checkpoint{}, err
	}
	if c.Schema != session.CheckpointSchema {
		return session.Checkpoint{}, fmt.Errorf("its schema is %q, not %q", c.Schema, session.CheckpointSchema)
	}
	return c, nil
}

// Checkpoints lists a session's checkpoints, the newest first. They are walked
// from the head that execution_state.json names, through each one's Previous. A
// damaged or missing one is reported in the error, which is then
// [session.ErrCorrupt] or [session.ErrNotFound] for each, and what can be read without
// it is listed all the same: the first in the list is the last good checkpoint.
// What was pruned is neither listed nor missed.
// A blob that only a checkpoint_<phase>.json still has is stored again from it, if
// the store can be written.
func (s *Store) Checkpoints(ctx context.Context, key session.Key) ([]StoredCheckpoint, error) {
	w, err := s.walk(ctx, key)
	if err != nil {
		return nil, err
	}
	return w.sorted(w.head), errors.Join(w.faults...)
}

// walk finds a session's checkpoints. Errors are only those of an unusable store.
func (s *Store) walk(ctx context.Context, key session.Key) (*chainWalk, error) {
	w := &chainWalk{store: s, key: key, seen: map[spec.Digest]bool{}}
	if err := w.readCopies(ctx); err != nil {
		return nil, err
	}
	notes, err := s.notes(key)
	if errors.Is(err, session.ErrCorrupt) {
		w.faults = append(w.faults, err)
	} else if err != nil {
		return nil, err
	}
	w.pruned = notes.names()
	e, err := s.Execution(key)
	switch {
	case err == nil:
		w.head = cmp.Or(e.Head, e.Checkpoint)
	case errors.Is(err, session.ErrCorrupt):
		w.faults = append(w.faults, err)
	case !errors.Is(err, session.ErrNotFound):
		return nil, err
	}
	// Behind a broken link of the chain, and where the head is behind or not
	// known, the copies lead on.
	for _, name := range append([]spec.Digest{w.head}, slices.Sorted(maps.Keys(w.copies))...) {
		if err := w.follow(ctx, name); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// chainWalk collects the checkpoints of a session.
type chainWalk struct {
	store *Store
	key   session.Key
	head  spec.Digest
	// copies are the session's checkpoint_<phase>.json, by their digest.
	copies map[spec.Digest][]byte
	// pruned are the session's checkpoints that were removed on purpose.
	pruned map[spec.Digest]bool
	// prunedElsewhere are those of the session's origin, noted as pruned there.
	prunedElsewhere []spec.Digest
	seen            map[spec.Digest]bool
	found           []StoredCheckpoint
	faults          []error
}

func (w *chainWalk) readCopies(ctx context.Context) error {
	dir, err := w.store.SessionDir(w.key)
	if err != nil {
		return err
	}
	files, err := w.store.documents(ctx, dir, checkpointPrefix)
	if err != nil {
		return err
	}
	w.copies = make(map[spec.Digest][]byte, len(files))
	for _, phase := range slices.Sorted(maps.Keys(files)) {
		_, data, err := w.store.readCopy(w.key, phase, files[phase])
		switch {
		case err == nil:
			w.copies[digestOf(data)] = data
		case errors.Is(err, session.ErrCorrupt):
			w.faults = append(w.faults, err)
		case err != nil && !errors.Is(err, session.ErrNotFound):
			return err
		}
	}
	return nil
}

// follow walks the chain from a checkpoint back to its beginning or to one that
// has been seen, or to a fault. Errors are only those of an unusable store.
func (w *chainWalk) follow(ctx context.Context, name spec.Digest) error {
	for name != "" && !w.seen[name] && !w.pruned[name] {
		w.seen[name] = true
		c, err := w.store.checkpoint(ctx, name)
		if errors.Is(err, session.ErrNotFound) && w.copies[name] == nil {
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
			data, ok := w.copies[name]
			if !ok {
				return nil
			}
			// Where the store cannot be written, the copy serves all the same.
			if _, failed := w.store.PutBlob(ctx, data); failed == nil {
				w.faults = append(w.faults[:len(w.faults)-1], repaired(err, "the blob was rewritten from the checkpoint's copy"))
			}
			c, err = w.store.decodeCheckpoint(data)
		}
		if err != nil {
			return err
		}
		w.found = append(w.found, StoredCheckpoint{Name: name, Checkpoint: c})
		name = c.Previous
	}
	return nil
}

// sorted lists what was found so that each checkpoint comes before its Previous.
// Where there are several ends, those that go on from the head come first, then
// the later incarnation, then the later time.
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
