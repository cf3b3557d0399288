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
	// parts are the checkpoints whose blobs this one needs.
	parts []spec.Digest
}

// checkpoints stores the checkpoints of sessions.
type checkpoints struct {
	*documents
	sessions sessions
	content  *cas.Store
	// whole caches checkpoints, and parts caches the documents of parts.
	whole decodedCache[StoredCheckpoint]
	parts decodedCache[checkpointDocument]
	teams decodedCache[spec.Team]
}

// PutCheckpoint stores a checkpoint as a blob and as checkpoint_<phase>.json with the same bytes,
// durably, and returns the blob's digest. It fills in Schema, Session and SHA256. Content of
// earlier checkpoints is not written again ([checkpointDocument]). The caller must not change the
// checkpoint afterwards.
//
// The copy is that of the newest checkpoint after the phase, by incarnation and then by
// CreatedAt. A late executor stores its blob, but does not replace a newer copy.
func (s *checkpoints) PutCheckpoint(ctx context.Context, key session.Key, c session.Checkpoint) (spec.Digest, error) {
	doc, err := copyKey(key, c.CurrentPhase)
	if err != nil {
		return "", err
	}
	c.Schema, c.Session = session.CheckpointSchema, key.Session
	d, err := s.split(ctx, c)
	if err != nil {
		return "", fmt.Errorf("read the checkpoint before the one after %s: %w", c.CurrentPhase, err)
	}
	data, err := seal(d)
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
	s.remember(name, d, StoredCheckpoint{Name: name, Checkpoint: c, parts: d.Parts}, len(data))
	return name, nil
}

// remember adds a checkpoint and its document to the caches; size is the document's size in
// bytes.
func (s *checkpoints) remember(name spec.Digest, d checkpointDocument, whole StoredCheckpoint, size int) {
	s.whole.add(name, whole, size*(1+len(d.Parts)))
	s.parts.add(name, d, size)
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
	checkpointDocument
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
		if c.checkpointDocument, err = s.decodeCheckpoint(read); err != nil {
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

// Checkpoint reads a checkpoint with its parts and verifies all digests. The result is shared and
// must not be changed. Errors are those of [Store.Blob]; a blob that is not a checkpoint is
// [session.ErrNotFound]. The checkpoint is marked as used, so that nothing that it refers to is
// pruned for a day.
func (s *checkpoints) Checkpoint(ctx context.Context, name spec.Digest) (session.Checkpoint, error) {
	// Ignore other errors: if the store cannot be written, nothing can be pruned either.
	if errors.Is(s.docs.UseBlob(name), storage.ErrNotFound) {
		s.whole.remove(name)
	}
	c, err := s.checkpoint(ctx, name)
	return c.Checkpoint, err
}

// CheckpointAlone reads a checkpoint's own document, verified: it has only those assignments,
// artifacts and decisions that earlier checkpoints do not have. The checkpoint is not marked as
// used, so it can be pruned.
func (s *checkpoints) CheckpointAlone(ctx context.Context, name spec.Digest) (session.Checkpoint, error) {
	d, _, err := s.readCheckpoint(ctx, name)
	return d.Checkpoint, err
}

func (s *checkpoints) checkpoint(ctx context.Context, name spec.Digest) (StoredCheckpoint, error) {
	if c, ok := s.whole.get(name); ok {
		return c, nil
	}
	d, size, err := s.readCheckpoint(ctx, name)
	if err != nil {
		return StoredCheckpoint{}, err
	}
	c, err := composed(ctx, name, d, s.part)
	if err == nil {
		s.remember(name, d, c, size)
	}
	return c, err
}

// readCheckpoint reads a checkpoint's blob, verified, and returns its size in bytes, too.
func (s *checkpoints) readCheckpoint(ctx context.Context, name spec.Digest) (d checkpointDocument, size int, err error) {
	data, err := s.content.Blob(ctx, name)
	if err != nil {
		return d, 0, fmt.Errorf("read a checkpoint: %w", err)
	}
	if d, err = s.decodeCheckpoint(data); err != nil {
		return d, 0, s.content.WrongKind(name, "checkpoint", err)
	}
	return d, len(data), nil
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

func (s *checkpoints) decodeCheckpoint(data []byte) (checkpointDocument, error) {
	var d checkpointDocument
	if err := unseal(data, &d); err != nil {
		return checkpointDocument{}, err
	}
	if d.Schema != session.CheckpointSchema {
		return checkpointDocument{}, fmt.Errorf("its schema is %q, not %q", d.Schema, session.CheckpointSchema)
	}
	return d, nil
}
