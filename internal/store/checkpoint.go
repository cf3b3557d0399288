package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// StoredCheckpoint is a checkpoint and the digest of its blob.
type StoredCheckpoint struct {
	Name spec.Digest
	session.Checkpoint
}

// StoreCheckpoint stores the blob of a checkpoint durably, and returns the row that names it. It fills in Schema, Session and
// SHA256. The caller must not change the checkpoint afterwards.
func (s *Store) StoreCheckpoint(ctx context.Context, key session.Key, c session.Checkpoint) (row state.Checkpoint, err error) {
	if err := errors.Join(key.Check(), spec.CheckName(c.CurrentPhase)); err != nil {
		return row, err
	}
	c.Schema, c.Session = session.CheckpointSchema, key.Session
	data, err := encodeDigested(c)
	if err != nil {
		return row, fmt.Errorf("write the checkpoint after %s: %w", c.CurrentPhase, err)
	}
	row = state.Checkpoint{Key: key, Run: int64(c.Run), Phase: c.CurrentPhase, Previous: c.Previous, Tree: c.Tree}
	if !c.CreatedAt.IsZero() {
		row.BoundaryAt = c.CreatedAt.UnixMicro()
	}
	row.Digest, err = s.Content.PutBlob(ctx, data)
	return row, err
}

// Checkpoints lists a session's checkpoints that were not pruned, newest first. Damaged and missing ones are reported in the
// error, which is [session.ErrCorrupt] or [session.ErrNotFound] for each of them; the list then has the others. If the
// mirror has a missing one, it is stored again.
func (s *Store) Checkpoints(ctx context.Context, key session.Key) ([]StoredCheckpoint, error) {
	return s.readable(ctx, key, 0)
}

// Newest is the newest checkpoint of a session that can be read. The error reports those after it that cannot; it is
// [session.ErrNotFound] if there is none.
func (s *Store) Newest(ctx context.Context, key session.Key) (StoredCheckpoint, error) {
	found, err := s.readable(ctx, key, 1)
	if len(found) == 0 {
		none := &cas.Fault{Path: mirrorDir(key), What: "the session has no readable checkpoint", Kind: session.ErrNotFound}
		return StoredCheckpoint{}, errors.Join(err, none)
	}
	return found[0], err
}

// readable reads the newest checkpoints of a session that can be read: so many, or all if limit is zero.
func (s *Store) readable(ctx context.Context, key session.Key, limit int) (found []StoredCheckpoint, err error) {
	rows, err := s.State.Checkpoints(ctx, key)
	if err != nil {
		return nil, err
	}
	var faults []error
	for _, row := range rows {
		if row.PrunedAt.Valid {
			continue
		}
		c, err := s.readOrMend(ctx, row)
		if errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrNotFound) {
			faults = append(faults, err)
		} else if err != nil {
			return nil, err
		}
		if c.Schema != "" {
			found = append(found, StoredCheckpoint{row.Digest, c})
		}
		if len(found) == limit && limit > 0 {
			break
		}
	}
	return found, errors.Join(faults...)
}

// readOrMend reads a checkpoint. If its blob is damaged or missing and the mirror has it, it is returned with the error, and
// the blob is stored again.
func (s *Store) readOrMend(ctx context.Context, row state.Checkpoint) (session.Checkpoint, error) {
	c, err := s.PeekCheckpoint(ctx, row.Digest)
	if !errors.Is(err, session.ErrCorrupt) && !errors.Is(err, session.ErrNotFound) {
		return c, err
	}
	data, failed := s.mirror.Read(ctx, mirrorFile(row.Key, row.Phase))
	if failed != nil || spec.DigestOf(data) != row.Digest {
		return c, err
	}
	if _, failed := s.Content.PutBlob(ctx, data); failed == nil { // otherwise the store cannot be written
		err = repaired(err, "the blob was stored again from the mirror")
	}
	c, failed = decodeCheckpoint(data)
	return c, errors.Join(err, failed)
}

// Checkpoint reads a checkpoint and verifies its digest. Errors are those of [Store.Blob]; a blob that is not a checkpoint is
// [session.ErrNotFound]. The checkpoint is marked as used, so that nothing that it refers to is
// pruned for a day.
func (s *Store) Checkpoint(ctx context.Context, name spec.Digest) (session.Checkpoint, error) {
	_ = s.blobs.UseBlob(ctx, name) // if the store cannot be written, nothing can be pruned either
	return s.PeekCheckpoint(ctx, name)
}

// PeekCheckpoint is Checkpoint, but does not mark the checkpoint as used, so it can be pruned.
func (s *Store) PeekCheckpoint(ctx context.Context, name spec.Digest) (session.Checkpoint, error) {
	return readCheckpoint(ctx, s.Content, name)
}

func readCheckpoint(ctx context.Context, content *cas.Store, name spec.Digest) (c session.Checkpoint, err error) {
	data, err := content.Blob(ctx, name)
	if err != nil {
		return c, fmt.Errorf("read a checkpoint: %w", err)
	}
	if c, err = decodeCheckpoint(data); err != nil {
		return c, content.WrongKind(name, "checkpoint", err)
	}
	return c, nil
}

// Team reads a team from its blob, verified. Errors are those of [Store.Blob]; a blob that is not a team is
// [session.ErrNotFound].
func (s *Store) Team(ctx context.Context, name spec.Digest) (spec.Team, error) {
	data, err := s.Content.Blob(ctx, name)
	if err != nil {
		return spec.Team{}, fmt.Errorf("read team %s: %w", name.Short(), err)
	}
	var t spec.Team
	if err := json.Unmarshal(data, &t); err != nil {
		return spec.Team{}, s.Content.WrongKind(name, "team", err)
	}
	return t, nil
}

func decodeCheckpoint(data []byte) (c session.Checkpoint, err error) {
	if err := decodeDigested(data, &c); err != nil {
		return session.Checkpoint{}, err
	}
	if c.Schema != session.CheckpointSchema {
		return session.Checkpoint{}, fmt.Errorf("its schema is %q, not %q", c.Schema, session.CheckpointSchema)
	}
	if err := spec.CheckName(c.CurrentPhase); err != nil {
		return session.Checkpoint{}, fmt.Errorf("current_phase: %w", err)
	}
	return c, nil
}
