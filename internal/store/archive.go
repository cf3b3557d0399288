package store

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/team"
)

// An archive is a session in one file: a gzipped tar of its contents' list, its
// documents and the blobs that these need, always in the same order and with no
// times of its own, so that equal sessions have equal archives.
const (
	archiveSchema = "maestro.archive/v1"
	archiveList   = "archive.json"
	archiveState  = executionFile
	archiveBlobs  = "blobs/"
	archiveRecord = "assignments/"
)

// archiveIndex is the first file of an archive: what else is in it.
type archiveIndex struct {
	Schema    string `json:"schema"`
	Namespace string `json:"namespace"`
	Session   string `json:"session"`
	// Store is the id of the store that the session comes from.
	Store string `json:"store"`
	// Head is the newest checkpoint.
	Head team.Digest `json:"head"`
	// Transcripts tells whether those of the attempts are there.
	Transcripts bool `json:"transcripts"`
	// Documents has the digests of the files beside blobs, by name.
	Documents map[string]team.Digest `json:"documents"`
	// Blobs has the sizes of the blobs.
	Blobs  map[team.Digest]int64 `json:"blobs"`
	SHA256 team.Digest           `json:"sha256"`
}

// Archived says what an archive holds.
type Archived struct {
	Session     string      `json:"session"`
	Head        team.Digest `json:"head"`
	Checkpoints int         `json:"checkpoints"`
	Records     int         `json:"records"`
	Blobs       int         `json:"blobs"`
	// Bytes is the size of documents and blobs before compression.
	Bytes       int64 `json:"bytes"`
	Transcripts bool  `json:"transcripts"`
}

// WriteArchive writes a session's archive: everything that it can be resumed from
// in another store, and with transcripts what its agents printed. All of it is
// verified on the way out: a fault is an error, and what was written then must
// not be used.
func (s *Store) WriteArchive(ctx context.Context, key team.SessionKey, transcripts bool, w io.Writer) (Archived, error) {
	out, err := s.writeArchive(ctx, key, transcripts, w)
	if err != nil {
		return Archived{}, fmt.Errorf("export session %s: %w", key.Session, err)
	}
	return out, nil
}

func (s *Store) writeArchive(ctx context.Context, key team.SessionKey, transcripts bool, w io.Writer) (Archived, error) {
	index, documents, out, err := s.gather(ctx, key, transcripts)
	if err != nil {
		return out, err
	}
	first, err := seal(index)
	if err != nil {
		return out, err
	}
	zip := gzip.NewWriter(w)
	t := tar.NewWriter(zip)
	put := func(name string, size int64, write func(io.Writer) error) error {
		out.Bytes += size
		if err := t.WriteHeader(&tar.Header{Name: name, Mode: int64(fileMode), Size: size, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}); err != nil {
			return err
		}
		return write(t)
	}
	bytesOf := func(data []byte) func(io.Writer) error {
		return func(w io.Writer) error { _, err := w.Write(data); return err }
	}
	if err := put(archiveList, int64(len(first)), bytesOf(first)); err != nil {
		return out, err
	}
	for _, name := range slices.Sorted(maps.Keys(documents)) {
		if err := put(name, int64(len(documents[name])), bytesOf(documents[name])); err != nil {
			return out, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(index.Blobs)) {
		err := put(archiveBlobs+string(name), index.Blobs[name], func(w io.Writer) error {
			_, err := s.CopyBlob(ctx, name, w)
			return err
		})
		if err != nil {
			return out, err
		}
	}
	return out, errors.Join(t.Close(), zip.Close())
}

// gather finds what belongs into a session's archive.
func (s *Store) gather(ctx context.Context, key team.SessionKey, transcripts bool) (archiveIndex, map[string][]byte, Archived, error) {
	index := archiveIndex{
		Schema: archiveSchema, Namespace: key.Namespace, Session: key.Session, Store: s.id, Transcripts: transcripts,
		Documents: map[string]team.Digest{}, Blobs: map[team.Digest]int64{},
	}
	out := Archived{Session: key.Session, Transcripts: transcripts}
	v := newVerification(s)
	v.untold = !transcripts
	w, err := s.walk(ctx, key)
	if err != nil {
		return index, nil, out, err
	}
	chain := w.sorted(w.head)
	if len(chain) == 0 {
		return index, nil, out, errors.Join(append(w.faults, errors.New("it has no checkpoint that can be read"))...)
	}
	index.Head, out.Head, out.Checkpoints = chain[0].Name, chain[0].Name, len(chain)
	for _, c := range chain {
		by := "the checkpoint after " + c.CurrentPhase
		v.need(c.Name, by)
		if err := v.checkpoint(ctx, c.Checkpoint, by); err != nil {
			return index, nil, out, err
		}
	}
	documents, err := s.archiveDocuments(ctx, key, v, w, chain[0])
	if err != nil {
		return index, nil, out, err
	}
	var faults []error
	for _, path := range slices.Sorted(maps.Keys(v.faults)) {
		f := v.faults[path]
		faults = append(faults, &f)
	}
	if err := errors.Join(append(faults, w.faults...)...); err != nil {
		return index, nil, out, err
	}
	for name := range v.needed {
		info, err := os.Stat(s.blobPath(name))
		if err != nil {
			_, err = s.openBlob(name)
			return index, nil, out, err
		}
		index.Blobs[name] = info.Size()
	}
	for name, data := range documents {
		index.Documents[name] = digestOf(data)
	}
	out.Blobs, out.Records = len(index.Blobs), v.report.Records
	return index, documents, out, nil
}

// archiveDocuments renders the session's documents. Its checkpoints are blobs;
// their copies are made anew by an import.
func (s *Store) archiveDocuments(ctx context.Context, key team.SessionKey, v *verification, w *chainWalk, newest StoredCheckpoint) (map[string][]byte, error) {
	out := map[string][]byte{}
	e, err := s.Execution(key)
	switch {
	case errors.Is(err, team.ErrNotFound):
		e = team.Execution{Schema: team.ExecutionSchema, Namespace: key.Namespace, Store: s.id}
		e.Session, e.Team, e.Tree = key.Session, newest.Team.Name, newest.Tree
	case err != nil:
		return nil, err
	}
	e.Head, e.Checkpoint = newest.Name, newest.Name
	if out[archiveState], err = seal(e); err != nil {
		return nil, err
	}
	n, err := s.notes(key)
	if err != nil {
		return nil, err
	}
	for _, name := range w.elsewhere {
		n.Checkpoints = append(n.Checkpoints, prunedCheckpoint{Checkpoint: name})
	}
	if len(n.Checkpoints) > 0 {
		n.Schema, n.Session = prunedSchema, key.Session
		if out[prunedFile], err = seal(n); err != nil {
			return nil, err
		}
	}
	records, err := s.Records(ctx, key)
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		v.report.Records++
		if err := v.record(ctx, key, r); err != nil {
			return nil, err
		}
		if v.untold {
			r = r.Untold()
		}
		if out[archiveRecord+r.Assignment.Phase+"."+r.Assignment.Persona+".json"], err = seal(r); err != nil {
			return nil, err
		}
	}
	return out, s.archivePaid(ctx, key, v, out)
}

// archivePaid renders what the session has paid for.
func (s *Store) archivePaid(ctx context.Context, key team.SessionKey, v *verification, out map[string][]byte) error {
	l, err := s.Ledger(key)
	if err != nil {
		return err
	}
	if err := v.paid(ctx, key); err != nil {
		return err
	}
	ids, err := s.journals(ctx, key)
	if err != nil {
		return err
	}
	for _, id := range ids {
		path, err := s.journalPath(key, id)
		if err != nil {
			return err
		}
		f, err := s.readJournal(path)
		if err != nil {
			return err
		}
		if v.untold {
			if err := f.untell(); err != nil {
				return err
			}
		}
		if len(f.sound) > 0 {
			out[archiveRecord+journalName(id)] = f.sound
		}
	}
	if len(l.Rows) > 0 || l.Revision > 0 {
		out[ledgerFile], err = sealLedger(l)
	}
	return err
}
