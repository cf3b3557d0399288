package store

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// Limits of an archive. Archives of real sessions are far below them.
const (
	maxArchiveDocument  = 256 << 20
	maxArchiveDocuments = 1 << 30
	maxArchiveEntries   = 4_000_000
	maxArchiveBytes     = 1 << 40
	// maxArchivePadding is how many bytes may follow the archive's end.
	maxArchivePadding = 1 << 20
)

// ErrSessionExists says that the store already has a session of this name.
var ErrSessionExists = errors.New("the store has this session already")

// ArchiveError says what is wrong with an archive.
type ArchiveError struct {
	// Entry is the file in the archive; empty for the archive as a whole.
	Entry string
	// What says what is wrong, and what to do.
	What string
}

// Error names the entry and the fault.
func (e *ArchiveError) Error() string {
	if e.Entry == "" {
		return e.What
	}
	return fmt.Sprintf("%q: %s", textfmt.Shorten(e.Entry, 120), e.What)
}

func archiveFault(entry, format string, args ...any) error {
	return &ArchiveError{entry, fmt.Sprintf(format, args...)}
}

// ImportSession imports the session of an archive, under another name if session is not empty. It
// unpacks the archive into a separate store, verifies it as [Store.VerifySession] does, and then
// publishes it. The error is an [*ArchiveError] if the archive is not as ExportSession wrote it;
// then nothing is imported. If the store has the session already, the error is
// [ErrSessionExists].
//
// Under the same name the session's chain of checkpoints stays the same, byte for byte. Under
// another name its checkpoints get new digests. The imported session belongs to this store and is
// closed: a session that was running counts as failed.
func (s *Store) ImportSession(ctx context.Context, r io.Reader, namespace, sessionID string) (out Archive, err error) {
	staged, err := s.stage()
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, staged.stage.Close()) }()
	from, err := staged.unpack(ctx, r)
	if err != nil {
		return out, err
	}
	key := session.Key{Namespace: namespace, Session: cmp.Or(sessionID, from.Session)}
	if err := s.checkVacancy(key); err != nil {
		return out, err
	}
	v, out, err := staged.prepare(ctx, from, key)
	if err != nil {
		return out, staged.archiveFault(err)
	}
	return out, s.importMoney(ctx, staged, key, slices.Sorted(maps.Keys(v.needed)))
}

// importMoney writes the rows of a staged session, and publishes it. Rows without a session do no harm: the next import of
// its name replaces them.
func (s *Store) importMoney(ctx context.Context, staged *stagedStore, key session.Key, blobs []spec.Digest) error {
	m, err := staged.archivedMoney(key)
	if err != nil {
		return err
	}
	doc, err := documentKey(key, moneyFile)
	if err != nil {
		return err
	}
	if err := staged.remove(doc); err != nil {
		return err
	}
	if err := s.State.PutMoney(ctx, key, m.Money); err != nil {
		return err
	}
	if err := staged.publish(ctx, key, blobs); err != nil {
		return err
	}
	return s.rowsOf(ctx, key)
}

// rowsOf writes the rows of a session that was imported.
func (s *Store) rowsOf(ctx context.Context, key session.Key) error {
	e, err := s.Execution(key)
	if errors.Is(err, session.ErrNotFound) { // it was never admitted
		return nil
	}
	if err != nil {
		return err
	}
	if e.Checkpoint == "" {
		return s.State.PutExecution(ctx, e, "")
	}
	c, err := s.PeekCheckpoint(ctx, e.Checkpoint)
	if err != nil {
		return err
	}
	return errors.Join(s.State.PutExecution(ctx, e, c.Requirement), s.State.PutAnswers(ctx, key, c.Answers))
}

// ImportCheckpoints creates a closed session from work that was done elsewhere: a chain of
// checkpoints, the oldest first, and the state after the last one. The blobs that they refer to
// must be stored already. It fills in Previous and Session of the checkpoints. If the session
// exists already, the error is [ErrSessionExists].
func (s *Store) ImportCheckpoints(ctx context.Context, key session.Key, state session.Execution, chain []session.Checkpoint) (head spec.Digest, err error) {
	if err := s.checkVacancy(key); err != nil {
		return "", err
	}
	staged, err := s.stage()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, staged.stage.Close()) }()
	for _, c := range chain {
		c.Previous = head
		if head, err = staged.putImported(ctx, key, c, s); err != nil {
			return "", fmt.Errorf("write the checkpoint after %s: %w", c.CurrentPhase, err)
		}
		state.Checkpoint, state.UpdatedAt = head, s.now().UTC()
	}
	if err := staged.putImportedState(key, state); err != nil {
		return "", err
	}
	if err := staged.publish(ctx, key, nil); err != nil {
		return "", err
	}
	return head, s.rowsOf(ctx, key)
}

// stagedStore is a separate store for a session that is not published yet.
type stagedStore struct {
	*Store
	stage storage.Stage
}

func (s *Store) stage() (*stagedStore, error) {
	stage, err := s.docs.Stage()
	if err != nil {
		return nil, err
	}
	return &stagedStore{newStore(stage, s.dir, "", s.id, Options{Clock: s.now}), stage}, nil
}

// publish moves a session and the blobs that it needs to the target store.
func (s *stagedStore) publish(ctx context.Context, key session.Key, blobs []spec.Digest) error {
	doc, err := documentKey(key)
	if err != nil {
		return err
	}
	if err = s.stage.Publish(ctx, doc, blobs); errors.Is(err, storage.ErrConflict) {
		err = fmt.Errorf("session %s: %w", key.Session, ErrSessionExists)
	}
	return err
}

func (s *Store) checkVacancy(key session.Key) error {
	known, err := s.HasSession(key)
	if err == nil && known {
		err = fmt.Errorf("session %s: %w", key.Session, ErrSessionExists)
	}
	return err
}

// archiveFault converts faults of this store into an error of the archive that it was unpacked
// from.
func (s *Store) archiveFault(err error) error {
	if !errors.Is(err, session.ErrCorrupt) && !errors.Is(err, session.ErrNotFound) {
		return err
	}
	faults, _ := faultsIn(err)
	if len(faults) == 0 { // an invalid digest
		return archiveFault("", "%s; export it again", err)
	}
	return archiveFault(faults[0].Path, "%s; export it again", strings.ReplaceAll(faults[0].What, "the store "+s.dir, "the archive"))
}

// archivedSession returns the session that an entry of an archive belongs to; empty for a blob.
// ok is false if the entry is neither a session's document nor a blob.
func archivedSession(name string) (key session.Key, ok bool) {
	parts := strings.Split(name, "/")
	switch {
	case len(parts) == 4 && parts[0] == "blobs" && parts[1] == "sha256":
		return key, len(parts[2]) == 2 && spec.Digest(parts[2]+parts[3]).Valid()
	case len(parts) < 4 || parts[0] != "sessions":
		return key, false
	}
	key = session.Key{Namespace: parts[1], Session: parts[2]}
	switch file := parts[len(parts)-1]; {
	case key.Check() != nil:
	case len(parts) == 4:
		ok = slices.Contains([]string{executionFile, prunedFile, moneyFile}, file)
	case len(parts) == 5 && parts[3] == "assignments":
		_, ok = recordOf(file)
	}
	return key, ok
}

// unpack writes the files of an archive into this store, which must be empty, and returns the
// session in it. It does not verify contents.
func (s *Store) unpack(ctx context.Context, r io.Reader) (from session.Key, err error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return from, archiveFault("", "it is no archive of `checkpoints export`: %s", err)
	}
	t := tar.NewReader(zip)
	batch, err := s.docs.NewBatch()
	if err != nil {
		return from, err
	}
	defer func() { err = errors.Join(err, batch.Close()) }()
	seen := map[string]bool{}
	var entries, documents, total int64
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return from, damagedArchive("", err)
		}
		key, ok := archivedSession(h.Name)
		isDocument := key != session.Key{}
		if h.Size > maxArchiveBytes-total { // the sum could overflow
			return from, archiveFault(h.Name, "is more than a session can have: %d bytes", h.Size)
		}
		switch entries, total = entries+1, total+h.Size; {
		case h.Typeflag != tar.TypeReg:
			return from, archiveFault(h.Name, "is no plain file; an archive holds nothing else")
		case !ok:
			return from, archiveFault(h.Name, "is no file of a session")
		case seen[h.Name]:
			return from, archiveFault(h.Name, "is in the archive twice; export it again")
		case isDocument && from == session.Key{}:
			from = key
		case isDocument && key != from:
			return from, archiveFault(h.Name, "is of another session than %s; an archive has one", from.Session)
		}
		if isDocument {
			documents += h.Size
		}
		if isDocument && h.Size > maxArchiveDocument || documents > maxArchiveDocuments || entries > maxArchiveEntries {
			return from, archiveFault(h.Name, "is more than a session can have: %d bytes in %d files", total, entries)
		}
		seen[h.Name] = true
		if err := s.unpackFile(h.Name, &archiveReader{ctx, t, h.Name}, batch); err != nil {
			return from, err
		}
	}
	if from == (session.Key{}) {
		return from, archiveFault("", "it has no session; export it again")
	}
	if err := batch.Commit(ctx); err != nil {
		return from, err
	}
	// Reading to the end verifies the checksum of the compression.
	if _, err := io.CopyN(io.Discard, zip, maxArchivePadding); !errors.Is(err, io.EOF) {
		return from, damagedArchive("", cmp.Or(err, errors.New("there is data after its end")))
	}
	return from, nil
}

func damagedArchive(entry string, err error) error {
	return archiveFault(entry, "is damaged or cut short: %s; export it again", err)
}

// unpackFile writes one file of an archive under its name, a key of a document or blob. It does
// not verify that a blob's content matches its name.
func (s *Store) unpackFile(name string, r io.Reader, blobs storage.BlobBatch) error {
	digest, isBlob := strings.CutPrefix(name, "blobs/sha256/")
	if !isBlob {
		data, err := io.ReadAll(r)
		if err == nil {
			_, err = s.docs.Write(name, data, "", storage.UntilPowerLoss)
		}
		return err
	}
	w, err := blobs.NewBlob()
	if err != nil {
		return err
	}
	defer w.Close() //nolint:errcheck // leftovers are removed with the stage
	if _, err = io.Copy(w, r); err != nil {
		return err
	}
	return w.Add(spec.Digest(strings.Replace(digest, "/", "", 1)))
}

// archiveReader distinguishes read errors of the archive from errors of the store.
type archiveReader struct {
	ctx   context.Context
	r     io.Reader
	entry string
}

func (r *archiveReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = damagedArchive(r.entry, err)
	}
	return n, err
}

// prepare converts the session of this store into a closed session with another key, and verifies
// it.
func (s *Store) prepare(ctx context.Context, from, key session.Key) (*verification, Archive, error) {
	out := Archive{Session: key.Session}
	w, err := s.walk(ctx, from)
	if err == nil {
		err = errors.Join(w.faults...)
	}
	if err != nil {
		return nil, out, err
	}
	state, err := s.Execution(from)
	if err != nil {
		return nil, out, err
	}
	pruned, _, err := s.notes(from)
	if err != nil {
		return nil, out, err
	}
	if from != key {
		if err := s.copyDocuments(from, key); err != nil {
			return nil, out, err
		}
		if len(pruned.Checkpoints) > 0 {
			err = s.putNotes(key, pruned, "")
		}
		if err != nil {
			return nil, out, err
		}
	}
	chain := w.sorted(w.head)
	if out.Head, err = s.resealChain(ctx, chain, from, key); err != nil {
		return nil, out, err
	}
	state.Checkpoint = out.Head
	if err := s.putImportedState(key, state); err != nil {
		return nil, out, err
	}
	v := newVerification(s)
	if err := v.session(ctx, key); err != nil {
		return nil, out, err
	}
	report, err := v.finish(ctx)
	if err == nil && len(report.Faults) > 0 {
		err = &report.Faults[0]
	}
	out.Checkpoints, out.Records, out.Blobs, out.Bytes = report.Checkpoints, report.Records, report.Blobs, report.Bytes
	return v, out, err
}

// copyDocuments copies the documents of a session to another key, except those that contain the
// session's name.
func (s *Store) copyDocuments(from, to session.Key) error {
	old, err := documentKey(from)
	if err != nil {
		return err
	}
	dir, err := documentKey(to)
	if err != nil {
		return err
	}
	names, err := s.docs.List(old + "/assignments")
	if err != nil {
		return err
	}
	for i, name := range names {
		names[i] = "assignments/" + name
	}
	for _, name := range append(names, moneyFile) {
		data, _, err := s.docs.Read(old + "/" + name)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err == nil {
			_, err = s.docs.Write(dir+"/"+name, data, "", storage.UntilPowerLoss)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// resealChain writes the copies of a session's checkpoints and returns the digest of the newest.
// The chain is sorted from newest to oldest. Under another name the session's checkpoints get new
// digests; those of its origins are kept.
func (s *Store) resealChain(ctx context.Context, chain []StoredCheckpoint, from, key session.Key) (head spec.Digest, err error) {
	if len(chain) == 0 || chain[0].Session != from.Session {
		return "", archiveFault(executionFile, "checkpoint: it names no checkpoint of session %s", from.Session)
	}
	resealed := map[spec.Digest]spec.Digest{}
	for _, c := range slices.Backward(chain) {
		if err := spec.CheckName(c.CurrentPhase); err != nil {
			return "", archiveFault("blobs/"+string(c.Name), "current_phase: %s", err)
		}
		head = c.Name
		if c.Session != from.Session {
			continue
		}
		if key.Session != from.Session {
			c.Previous = cmp.Or(resealed[c.Previous], c.Previous)
			if head, err = s.putImported(ctx, key, c.Checkpoint, s); err != nil {
				return "", err
			}
			resealed[c.Name] = head
			continue
		}
		data, err := s.Content.Blob(ctx, c.Name)
		if err == nil {
			err = s.putCopy(key, c.CurrentPhase, data)
		}
		if err != nil {
			return "", err
		}
	}
	return head, nil
}

// putImported seals a checkpoint for the session, writes its copy, and stores its blob in the
// store blobs.
func (s *Store) putImported(ctx context.Context, key session.Key, c session.Checkpoint, blobs *Store) (spec.Digest, error) {
	c.Schema, c.Session = session.CheckpointSchema, key.Session
	data, err := seal(c)
	if err == nil {
		err = s.putCopy(key, c.CurrentPhase, data)
	}
	if err != nil {
		return "", err
	}
	return blobs.Content.PutBlob(ctx, data)
}

func (s *Store) putCopy(key session.Key, phase string, data []byte) error {
	doc, err := copyKey(key, phase)
	if err != nil {
		return err
	}
	return s.replace(doc, data)
}

// putImportedState writes the state of an imported session. Unfinished work is set to pending,
// because no workflow runs it.
func (s *Store) putImportedState(key session.Key, e session.Execution) error {
	now := s.now().UTC()
	if !e.Status.Status.Closed() {
		e.Reason = "imported; go on with `maestro resume " + key.Session + "`"
		e.Status.Status, e.ClosedAt = session.Failed, &now
		for i, p := range e.Phases {
			for j, a := range p.Assignments {
				if !a.Status.Done() {
					e.Phases[i].Assignments[j].Status, e.Phases[i].Assignments[j].Progress = session.Pending, ""
				}
			}
			if !p.Status.Done() {
				e.Phases[i].Status = session.Pending
			}
		}
	}
	e.Schema, e.Store, e.Namespace, e.Session = session.ExecutionSchema, s.id, key.Namespace, key.Session
	e.Revision, e.UpdatedAt = e.Revision+1, now
	doc, err := documentKey(key, executionFile)
	if err != nil {
		return err
	}
	data, err := seal(e)
	if err != nil {
		return err
	}
	return s.replace(doc, data)
}
