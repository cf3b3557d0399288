package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/failpoint"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

const checkpointPrefix = "checkpoint_"

// StoredCheckpoint is a checkpoint and the blob that it is.
type StoredCheckpoint struct {
	Name spec.Digest
	session.Checkpoint
	// parts are the checkpoints whose blobs this one needs.
	parts []spec.Digest
}

// PutCheckpoint stores a checkpoint as a blob and as checkpoint_<phase>.json,
// byte for byte the same, and returns the blob's name. When it returns, both
// outlive a power loss. Schema, Session and SHA256 are filled in. What the checkpoints
// before it have is not written again ([checkpointDocument]).
//
// The copy is that of the newest checkpoint after the phase, by incarnation and then
// by CreatedAt: an executor that is late stores its blob and leaves a newer copy alone.
func (s *Store) PutCheckpoint(ctx context.Context, key session.Key, c session.Checkpoint) (spec.Digest, error) {
	path, err := s.CheckpointPath(key, c.CurrentPhase)
	if err != nil {
		return "", err
	}
	c.Schema, c.Session = session.CheckpointSchema, key.Session
	d, err := s.split(ctx, c)
	if err != nil {
		return "", fmt.Errorf("read the checkpoint before that after %s: %w", c.CurrentPhase, err)
	}
	data, err := s.seal(d)
	if err != nil {
		return "", fmt.Errorf("write the checkpoint after %s: %w", c.CurrentPhase, err)
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	name := cas.DigestOf(data)
	if err := s.withReserve(func() error { return s.putCopied(key, c, name, path, data) }); err != nil {
		return "", fmt.Errorf("write the checkpoint after %s: %w", c.CurrentPhase, err)
	}
	return name, nil
}

// putCopied stores a blob and a copy of it at path. Both are flushed together,
// before the copy takes the place of what is there.
func (s *Store) putCopied(key session.Key, c session.Checkpoint, name spec.Digest, path string, data []byte) (err error) {
	if _, err := s.docs.PutBlob(string(name), data, storage.UntilPowerLoss); err != nil {
		return err
	}
	f, err := s.files.Temp()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	failpoint.Torn(path, f, data)
	if err := storage.WriteAll(f, data, false); err != nil {
		return err
	}
	var flush errgroup.Group
	flush.Go(func() error { return s.docs.FlushBlobs([]string{string(name)}) })
	flush.Go(func() error { return storage.SyncDir(f.Name()) }) // the same for a file
	if err := flush.Wait(); err != nil {
		return err
	}
	s.NoteDurable(name)
	failpoint.Here("checkpoint stored, not copied")
	return s.withLock(key, chainLock, func(storage.Locked) error { return s.installCopy(key, c, f.Name(), path) })
}

// installCopy renames a temporary file to a checkpoint's copy, unless the session has
// gone on since: then the file is removed. The caller holds the lock of the chain.
func (s *Store) installCopy(key session.Key, c session.Checkpoint, temp, path string) error {
	late, err := s.isSuperseded(key, c)
	switch {
	case err != nil:
		return err
	case late:
		return os.Remove(temp)
	}
	return s.files.Install(temp, path, storage.Durable)
}

// isSuperseded reports whether a newer checkpoint of this phase exists. If both have the
// same time, the status document decides.
func (s *Store) isSuperseded(key session.Key, c session.Checkpoint) (bool, error) {
	stored, _, err := s.readCopy(key, c.CurrentPhase)
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
func (s *Store) readCopy(key session.Key, phase string) (c checkpointDocument, data []byte, err error) {
	doc, err := documentKey(key, checkpointPrefix+phase+".json")
	if err != nil {
		return c, nil, err
	}
	_, err = s.readDocument(doc, "checkpoint", func(read []byte) (err error) {
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

// Checkpoint reads a checkpoint and the parts that it has of earlier ones, verified, its
// own SHA-256 too. Errors are those of [Store.Blob]; a blob that is no checkpoint is
// [session.ErrNotFound]. Whoever reads a checkpoint is about to build on it: what it
// names is not pruned for a day.
func (s *Store) Checkpoint(ctx context.Context, name spec.Digest) (session.Checkpoint, error) {
	// Where the store cannot be written, nothing can be built or pruned.
	_ = s.docs.UseBlob(string(name))
	c, err := s.checkpoint(ctx, name)
	return c.Checkpoint, err
}

func (s *Store) checkpoint(ctx context.Context, name spec.Digest) (StoredCheckpoint, error) {
	d, _, err := s.readCheckpoint(ctx, name)
	if err != nil {
		return StoredCheckpoint{}, err
	}
	return composed(ctx, name, d, s.part)
}

// readCheckpoint reads a checkpoint's blob, verified, and its size.
func (s *Store) readCheckpoint(ctx context.Context, name spec.Digest) (d checkpointDocument, size int, err error) {
	data, err := s.Blob(ctx, name)
	if err != nil {
		return d, 0, fmt.Errorf("read a checkpoint: %w", err)
	}
	if d, err = s.decodeCheckpoint(data); err != nil {
		return d, 0, s.WrongKind(name, "checkpoint", err)
	}
	return d, len(data), nil
}

func (s *Store) decodeCheckpoint(data []byte) (checkpointDocument, error) {
	var d checkpointDocument
	if err := s.unseal(data, &d); err != nil {
		return checkpointDocument{}, err
	}
	if d.Schema != session.CheckpointSchema {
		return checkpointDocument{}, fmt.Errorf("its schema is %q, not %q", d.Schema, session.CheckpointSchema)
	}
	return d, nil
}
