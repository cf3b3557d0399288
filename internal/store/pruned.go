package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

const (
	prunedFile   = "pruned.json"
	prunedSchema = "maestro.pruned/v1"
	// chainLock is held while copies of a session's checkpoints are removed or repaired.
	chainLock = "checkpoints"
)

// prunedNote is a session's pruned.json: the list of pruned checkpoints, whose absence is not a
// fault.
type prunedNote struct {
	Schema      string             `json:"schema"`
	Session     string             `json:"session"`
	Checkpoints []prunedCheckpoint `json:"checkpoints"`
}

type prunedCheckpoint struct {
	Checkpoint spec.Digest `json:"checkpoint"`
	Phase      string      `json:"phase"`
	CreatedAt  time.Time   `json:"created_at"`
	PrunedAt   time.Time   `json:"pruned_at"`
}

// notes reads a session's pruned.json; it is empty if nothing was pruned.
func (s *checkpoints) notes(key session.Key) (n prunedNote, version storage.Version, err error) {
	doc, err := documentKey(key, prunedFile)
	if err != nil {
		return n, "", err
	}
	version, err = s.readDocument(doc, "note of what was pruned", func(data []byte) error {
		n = prunedNote{}
		if err := unseal(data, &n); err != nil {
			return err
		}
		return n.check(key)
	})
	if errors.Is(err, session.ErrNotFound) {
		return prunedNote{}, "", nil
	}
	return n, version, err
}

func (n prunedNote) check(key session.Key) error {
	if n.Schema != prunedSchema || n.Session != key.Session {
		return fmt.Errorf("it is not the %s of session %s", prunedSchema, key.Session)
	}
	return nil
}

// names returns the digests in the note.
func (n prunedNote) names() map[spec.Digest]bool {
	out := make(map[spec.Digest]bool, len(n.Checkpoints))
	for _, c := range n.Checkpoints {
		out[c.Checkpoint] = true
	}
	return out
}

// prunedAnywhere reports whether any session lists the checkpoint as pruned: the chain of a fork
// continues in its origin.
func (s *checkpoints) prunedAnywhere(ctx context.Context, name spec.Digest) (bool, error) {
	keys, err := s.allSessions(ctx)
	if err != nil {
		return false, err
	}
	for _, key := range keys {
		// A damaged note is reported as a fault of its own session.
		if n, _, err := s.notes(key); err == nil && n.names()[name] {
			return true, nil
		}
	}
	return false, nil
}

// allSessions lists the sessions of all namespaces, sorted.
func (s *checkpoints) allSessions(ctx context.Context) ([]session.Key, error) {
	namespaces, err := s.sessions.Namespaces(ctx)
	if err != nil {
		return nil, err
	}
	var all []session.Key
	for _, ns := range namespaces {
		keys, err := s.sessions.Sessions(ctx, ns)
		if err != nil {
			return nil, err
		}
		all = append(all, keys...)
	}
	return all, nil
}

// dropCheckpoints lists checkpoints as pruned and then removes their copies. The sweep removes the
// blobs. A crash in between leaves unneeded files, but never an unexplained gap.
func (s *checkpoints) dropCheckpoints(key session.Key, dropped []StoredCheckpoint) error {
	return s.withLock(key, chainLock, func(storage.Locked) error {
		n, version, err := s.notes(key)
		if err != nil {
			return err
		}
		known := n.names()
		for _, c := range dropped {
			if !known[c.Name] {
				n.Checkpoints = append(n.Checkpoints, prunedCheckpoint{c.Name, c.CurrentPhase, c.CreatedAt, s.now().UTC()})
			}
		}
		slices.SortStableFunc(n.Checkpoints, func(a, b prunedCheckpoint) int {
			return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Checkpoint, b.Checkpoint))
		})
		if err := s.putNotes(key, n, version); err != nil {
			return err
		}
		for _, c := range dropped {
			if err := s.dropCopy(key, c); err != nil {
				return err
			}
		}
		return nil
	})
}

// putNotes replaces a session's pruned.json if it still has the version that was read.
func (s *checkpoints) putNotes(key session.Key, n prunedNote, version storage.Version) error {
	n.Schema, n.Session = prunedSchema, key.Session
	doc, err := documentKey(key, prunedFile)
	var data []byte
	if err == nil {
		data, err = seal(n)
	}
	if err == nil {
		_, err = s.docs.Write(doc, data, version, storage.Durable)
	}
	if err != nil {
		return fmt.Errorf("record the pruning of session %s: %w", key.Session, err)
	}
	return nil
}

// dropCopy removes checkpoint_<phase>.json if it is the copy of this checkpoint, and not of a
// later one after the same phase.
func (s *checkpoints) dropCopy(key session.Key, c StoredCheckpoint) error {
	doc, err := copyKey(key, c.CurrentPhase)
	if err != nil {
		return err
	}
	data, version, err := s.docs.Read(doc)
	if err == nil && cas.DigestOf(data) == c.Name {
		err = s.docs.Delete(doc, version)
	}
	if err != nil && !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, storage.ErrConflict) {
		return fmt.Errorf("remove the copy of checkpoint %s: %w", c.Name.Short(), err)
	}
	return nil
}
