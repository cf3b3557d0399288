package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/failpoint"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

const checkpointPrefix = "checkpoint_"

// StoredCheckpoint is a checkpoint and the digest of its blob.
type StoredCheckpoint struct {
	Name spec.Digest
	session.Checkpoint
}

// checkpoints stores the checkpoints of sessions.
type checkpoints struct {
	*documents
	sessions sessions
	content  *cas.Store
	decoded  decodedCache[session.Checkpoint]
	teams    decodedCache[spec.Team]
}

// PutCheckpoint stores a checkpoint as a blob and as checkpoint_<phase>.json with the same bytes,
// durably, and returns the blob's digest. It fills in Schema, Session and SHA256. The caller must
// not change the checkpoint afterwards.
//
// The copy is that of the newest checkpoint after the phase, by incarnation and then by
// CreatedAt. A late executor stores its blob, but does not replace a newer copy.
func (s *checkpoints) PutCheckpoint(ctx context.Context, key session.Key, c session.Checkpoint) (spec.Digest, error) {
	doc, err := copyKey(key, c.CurrentPhase)
	if err != nil {
		return "", err
	}
	c.Schema, c.Session = session.CheckpointSchema, key.Session
	data, err := seal(c)
	if err != nil {
		return "", fmt.Errorf("write the checkpoint after %s: %w", c.CurrentPhase, err)
	}
	name, err := s.content.PutBlob(ctx, data)
	if err == nil {
		failpoint.Here("checkpoint stored, not copied")
		err = storage.Update(s.docs, doc, storage.Durable, func() ([]byte, storage.Version, error) {
			version, late, err := s.copyBefore(key, c)
			if late {
				return nil, "", err
			}
			return data, version, err
		})
	}
	if err != nil {
		return "", fmt.Errorf("write the checkpoint after %s: %w", c.CurrentPhase, err)
	}
	s.decoded.add(name, c, len(data))
	if s.state != nil {
		if err := s.state.PutAnswers(ctx, key, c.Answers); err != nil {
			return "", fmt.Errorf("write the answers of session %s: %w", key.Session, err)
		}
	}
	return name, nil
}

// copyBefore returns the version of the copy that a checkpoint replaces. late is true if the
// session has a newer checkpoint after this phase. If both have the same time, the status
// document decides.
func (s *checkpoints) copyBefore(key session.Key, c session.Checkpoint) (version storage.Version, late bool, err error) {
	stored, err := s.readCopy(key, c.CurrentPhase)
	switch {
	case missing(err):
		return stored.version, false, nil
	case err != nil:
		return "", false, err
	}
	if order := stored.Compare(c); order != 0 {
		return stored.version, order > 0, nil
	}
	e, err := s.sessions.Execution(key)
	return stored.version, err == nil && e.IsPast(c.Incarnation, c.CreatedAt), nil
}

// checkpointCopy is a parsed checkpoint_<phase>.json.
type checkpointCopy struct {
	session.Checkpoint
	// of is the digest of the checkpoint's blob.
	of      spec.Digest
	data    []byte
	version storage.Version
}

// readCopy reads the copy of a phase's checkpoint. The error is [session.ErrNotFound] if there is
// none, and [session.ErrCorrupt] if it was damaged and moved to the quarantine.
func (s *checkpoints) readCopy(key session.Key, phase string) (c checkpointCopy, err error) {
	doc, err := copyKey(key, phase)
	if err != nil {
		return c, err
	}
	c.version, err = s.readDocument(doc, "checkpoint", func(read []byte) (err error) {
		if c.Checkpoint, err = s.decodeCheckpoint(read); err != nil {
			return err
		}
		if c.Session != key.Session || c.CurrentPhase != phase {
			return fmt.Errorf("it is the checkpoint after %s of session %s", c.CurrentPhase, c.Session)
		}
		c.data, c.of = read, cas.DigestOf(read)
		return nil
	})
	return c, err
}

// copyKey returns the key of the copy of a phase's checkpoint.
func copyKey(key session.Key, phase string) (string, error) {
	if err := spec.CheckName(phase); err != nil {
		return "", fmt.Errorf("phase: %w", err)
	}
	return documentKey(key, checkpointPrefix+phase+".json")
}

// CheckpointPath returns the path of the copy of a phase's checkpoint, for messages.
func (s *checkpoints) CheckpointPath(key session.Key, phase string) (string, error) {
	doc, err := copyKey(key, phase)
	return s.fileOf(doc), err
}

// Checkpoint reads a checkpoint and verifies its digest. The result is shared and must not be
// changed. Errors are those of [Store.Blob]; a blob that is not a checkpoint is
// [session.ErrNotFound]. The checkpoint is marked as used, so that nothing that it refers to is
// pruned for a day.
func (s *checkpoints) Checkpoint(ctx context.Context, name spec.Digest) (session.Checkpoint, error) {
	// Ignore other errors: if the store cannot be written, nothing can be pruned either.
	if errors.Is(s.docs.UseBlob(name), storage.ErrNotFound) {
		s.decoded.remove(name)
	}
	return s.PeekCheckpoint(ctx, name)
}

// PeekCheckpoint is Checkpoint, but does not mark the checkpoint as used, so it can be pruned.
func (s *checkpoints) PeekCheckpoint(ctx context.Context, name spec.Digest) (session.Checkpoint, error) {
	if c, ok := s.decoded.get(name); ok {
		return c, nil
	}
	return s.readCheckpoint(ctx, name)
}

// readCheckpoint reads a checkpoint's blob, verified.
func (s *checkpoints) readCheckpoint(ctx context.Context, name spec.Digest) (c session.Checkpoint, err error) {
	data, err := s.content.Blob(ctx, name)
	if err != nil {
		return c, fmt.Errorf("read a checkpoint: %w", err)
	}
	if c, err = s.decodeCheckpoint(data); err != nil {
		return c, s.content.WrongKind(name, "checkpoint", err)
	}
	s.decoded.add(name, c, len(data))
	return c, nil
}

// Team reads a team from its blob, verified. The result is shared and must not be changed. Errors
// are those of [Store.Blob]; a blob that is not a team is [session.ErrNotFound].
func (s *checkpoints) Team(ctx context.Context, name spec.Digest) (spec.Team, error) {
	if t, ok := s.teams.get(name); ok {
		return t, nil
	}
	data, err := s.content.Blob(ctx, name)
	if err != nil {
		return spec.Team{}, fmt.Errorf("read team %s: %w", name.Short(), err)
	}
	var t spec.Team
	if err := json.Unmarshal(data, &t); err != nil {
		return spec.Team{}, s.content.WrongKind(name, "team", err)
	}
	s.teams.add(name, t, len(data))
	return t, nil
}

func (s *checkpoints) decodeCheckpoint(data []byte) (c session.Checkpoint, err error) {
	if err := unseal(data, &c); err != nil {
		return session.Checkpoint{}, err
	}
	if c.Schema != session.CheckpointSchema {
		return session.Checkpoint{}, fmt.Errorf("its schema is %q, not %q", c.Schema, session.CheckpointSchema)
	}
	return c, nil
}
