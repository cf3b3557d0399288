package store

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

// Archive describes an exported session. The archive itself is a gzipped tar of a store that
// contains only the session: its documents and the blobs that they need, sorted by name and
// without times, so that equal sessions have equal archives. Copies of checkpoints are not
// included; an import writes them again.
type Archive struct {
	Session     string      `json:"session"`
	Head        spec.Digest `json:"head"`
	Checkpoints int         `json:"checkpoints"`
	Records     int         `json:"records"`
	Blobs       int         `json:"blobs"`
	// Bytes is the size of documents and blobs before compression, in bytes.
	Bytes int64 `json:"bytes"`
	// Transcripts reports whether the transcripts of attempts are included.
	Transcripts bool `json:"transcripts"`
}

// ExportSession writes a session's archive: everything that is needed to resume it in another
// store, and with transcripts the output of its agents. Everything is verified while it is
// written. After an error, the written part must not be used.
func (s *Store) ExportSession(ctx context.Context, key session.Key, transcripts bool, w io.Writer) (Archive, error) {
	e := &sessionExport{store: s, key: key, verification: newVerification(s), documents: map[string][]byte{}}
	e.withoutTranscripts = !transcripts
	err := e.collect(ctx)
	if err == nil {
		err = e.write(ctx, w)
	}
	if err != nil {
		return Archive{}, fmt.Errorf("export session %s: %w", key.Session, err)
	}
	e.archive.Session, e.archive.Transcripts = key.Session, transcripts
	return e.archive, nil
}

// sessionExport is a running export of a session.
type sessionExport struct {
	*verification // records the blobs that the session needs
	store         *Store
	key           session.Key
	archive       Archive
	// documents are the session's documents, by name.
	documents map[string][]byte
}

// collect reads the session's documents and records the blobs that they need. The session may be
// running, so each document is read before the documents that are written before it.
func (e *sessionExport) collect(ctx context.Context) error {
	w, err := e.store.walk(ctx, e.key)
	if err != nil {
		return err
	}
	chain := w.sorted(w.head)
	if len(chain) == 0 {
		return errors.Join(append(w.faults, errors.New("it has no readable checkpoint"))...)
	}
	e.archive.Head, e.archive.Checkpoints = chain[0].Name, len(chain)
	for _, c := range chain {
		by := "the checkpoint after " + c.CurrentPhase
		e.need(c.Name, by)
		if err := e.checkpoint(ctx, c.Checkpoint, by); err != nil {
			return err
		}
	}
	for _, read := range []func() error{
		func() error { return e.addState(chain[0]) },
		func() error { return e.addPruned(w) },
		func() error { return e.addMoney(ctx) },
		func() error { return e.addRecords(ctx) },
	} {
		if err := read(); err != nil {
			return err
		}
	}
	faults := w.faults
	for _, path := range slices.Sorted(maps.Keys(e.faults)) {
		f := e.faults[path]
		faults = append(faults, &f)
	}
	return errors.Join(faults...)
}

// addState adds the session's state after its newest checkpoint.
func (e *sessionExport) addState(newest StoredCheckpoint) error {
	state, err := e.store.Execution(e.key)
	switch {
	case errors.Is(err, session.ErrNotFound):
		state = session.Execution{Schema: session.ExecutionSchema, Namespace: e.key.Namespace, Store: e.store.id}
		state.Session, state.Team = e.key.Session, newest.Team.Name
	case err != nil:
		return err
	}
	state.Checkpoint = newest.Name
	e.documents[executionFile], err = seal(state)
	return err
}

// addPruned adds the list of pruned checkpoints, including those of the session that this one was
// forked from.
func (e *sessionExport) addPruned(w *chainWalk) error {
	n, _, err := e.store.notes(e.key)
	if err != nil {
		return err
	}
	for _, name := range w.prunedElsewhere {
		n.Checkpoints = append(n.Checkpoints, prunedCheckpoint{Checkpoint: name})
	}
	if len(n.Checkpoints) > 0 {
		n.Schema, n.Session = prunedSchema, e.key.Session
		e.documents[prunedFile], err = seal(n)
	}
	return err
}

// addRecords adds the records of assignments.
func (e *sessionExport) addRecords(ctx context.Context) error {
	records, err := e.store.Records(ctx, e.key)
	if err != nil {
		return err
	}
	e.archive.Records = len(records)
	for _, r := range records {
		if err := e.record(ctx, e.key, r); err != nil {
			return err
		}
		if e.withoutTranscripts {
			r = r.WithoutTranscripts()
		}
		if e.documents["assignments/"+recordName(r.Assignment)], err = seal(r); err != nil {
			return err
		}
	}
	return nil
}

// write writes the archive: the documents, then the blobs.
func (e *sessionExport) write(ctx context.Context, w io.Writer) error {
	zip := gzip.NewWriter(w)
	t := tar.NewWriter(zip)
	header := func(name string, size int64) error {
		e.archive.Bytes += size
		return t.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: time.Unix(0, 0), Format: tar.FormatPAX})
	}
	for _, name := range slices.Sorted(maps.Keys(e.documents)) {
		data := e.documents[name]
		if err := header(path.Join("sessions", e.key.Namespace, e.key.Session, name), int64(len(data))); err != nil {
			return err
		}
		if _, err := t.Write(data); err != nil {
			return err
		}
	}
	e.archive.Blobs = len(e.needed)
	for _, name := range slices.Sorted(maps.Keys(e.needed)) {
		size, err := e.store.Content.BlobSize(name)
		if err != nil {
			return err
		}
		if err := header(storage.BlobKey(name), size); err != nil {
			return err
		}
		if _, err := e.store.Content.CopyBlob(ctx, name, t); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), zip.Close())
}
