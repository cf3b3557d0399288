package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// ErrSessionExists says that the store already has a session of this name.
var ErrSessionExists = state.ErrSessionExists

// ImportSession imports the session of an archive, under another name if session is not empty. It stores the archive's blobs,
// verifies the rows and all that they name, and then writes all rows at once. The error is an [*ArchiveError] if the archive is
// not as ExportSession wrote it; then there is no session, and a prune removes the blobs. If the store has the session already,
// the error is [ErrSessionExists].
//
// The session's checkpoints stay the same, byte for byte. The imported session belongs to this store and is
// closed: a session that was running counts as failed.
func (s *Store) ImportSession(ctx context.Context, r io.Reader, namespace, sessionID string) (out Archive, err error) {
	batch, err := s.blobs.NewBatch()
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, batch.Close()) }()
	a := &archiveImport{store: s}
	if a.blobs, err = sessionArchive.Read(ctx, r, batch, a.readRows); err != nil {
		return out, err
	}
	key := session.Key{Namespace: namespace, Session: cmp.Or(sessionID, a.rows.Session.Session)}
	if err := key.Check(); err != nil {
		return out, err
	}
	if err := batch.Commit(ctx); err != nil {
		return out, err
	}
	if out, err = a.verify(ctx, key); err != nil {
		return out, err
	}
	if _, err := s.State.Load(ctx, key, a.rows.Rows, false); err != nil {
		return out, rowsFault(err)
	}
	checkpoints, err := s.State.Checkpoints(ctx, key)
	if err != nil {
		return out, err
	}
	out.Head = checkpoints[0].Digest
	return out, s.Mirror(ctx, key)
}

// ImportCheckpoints creates a closed session from work that was done elsewhere: a chain of
// checkpoints, the oldest first, and the state after the last one. The blobs that they refer to
// must be stored already. It fills in Previous and Session of the checkpoints. If the session
// exists already, the error is [ErrSessionExists].
func (s *Store) ImportCheckpoints(ctx context.Context, key session.Key, status session.Execution,
	chain []session.Checkpoint,
) (head spec.Digest, err error) {
	_, err = s.State.Standing(ctx, key)
	if err == nil {
		return "", fmt.Errorf("session %s: %w", key.Session, ErrSessionExists)
	}
	if !errors.Is(err, session.ErrNotFound) {
		return "", err
	}
	last := chain[len(chain)-1]
	const run = "imported"
	if _, err := s.State.Admit(ctx, state.Admission{
		Key: key, TemporalRun: run, OriginalRun: run, Team: status.Team, TeamDigest: string(last.Team.Blob),
		Requirement: last.Requirement,
		Workspace:   string(last.Workspace), Selection: status.Course, ReportTo: last.ReportTo,
	}); err != nil {
		return "", err
	}
	var rows []state.Checkpoint
	for _, c := range chain {
		c.Previous = head
		row, err := s.StoreCheckpoint(ctx, key, c)
		if err != nil {
			return "", fmt.Errorf("write the checkpoint after %s: %w", c.CurrentPhase, err)
		}
		head, rows = row.Digest, append(rows, row)
	}
	if err := s.State.PutCheckpoints(ctx, status.Team, rows...); err != nil {
		return "", err
	}
	_, _, err = s.State.PutBoundary(ctx, state.Boundary{
		Key: key, TemporalRun: run, FirstRun: run, At: last.CreatedAt,
		Status: status.Status,
	})
	if err == nil {
		err = s.Mirror(ctx, key)
	}
	return head, err
}

// archiveImport is a running import of an archive.
type archiveImport struct {
	store *Store
	// blobs are the sizes of the archive's blobs, which are stored.
	blobs map[spec.Digest]int64
	rows  archivedRows
}

// verify checks the rows and all that they name, and describes the archive. What they name has to be in the archive: nobody
// gets what is only in the store because its digest is known.
func (a *archiveImport) verify(ctx context.Context, key session.Key) (out Archive, err error) {
	out = Archive{Session: key.Session, Transcripts: a.rows.Transcripts, Records: a.rows.Rows.Records()}
	roots, err := a.store.State.Load(ctx, key, a.rows.Rows, true)
	if err != nil {
		return out, rowsFault(err)
	}
	v := newVerification(a.store)
	v.among = a.blobs
	if err := v.roots(ctx, roots); err != nil {
		return out, invalidDigest(err)
	}
	for _, r := range roots {
		if r.Kind == state.RootCheckpoint {
			out.Checkpoints++
		}
	}
	if out.Checkpoints == 0 {
		return out, archiveFault(rowsFile, "it has no checkpoint; export it again")
	}
	for _, name := range slices.Sorted(maps.Keys(v.needed)) {
		size, ok := a.blobs[name]
		if !ok {
			return out, archiveFault(string(name), "the archive has no such blob, which %s needs; export it again", v.needed[name])
		}
		out.Blobs, out.Bytes = out.Blobs+1, out.Bytes+size
	}
	return out, invalidDigest(v.joined())
}

// invalidDigest makes an error for what is no digest one of the archive. Other errors stay.
func invalidDigest(err error) error {
	if errors.Is(err, session.ErrNotFound) {
		return archiveFault("", "%s; export it again", err)
	}
	return err
}

// rowsFault is an error of rows that were read from an archive. Errors of the database itself stay.
func rowsFault(err error) error {
	for _, other := range []error{
		ErrSessionExists, state.ErrUnavailable, state.ErrDamaged, context.Canceled,
		context.DeadlineExceeded,
	} {
		if errors.Is(err, other) {
			return err
		}
	}
	return archiveFault(rowsFile, "%s; export it again", err)
}

// readRows reads the rows.
func (a *archiveImport) readRows(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return damagedArchive(rowsFile, err)
	}
	if err = decodeDigested(data, &a.rows); err == nil {
		err = a.rows.Session.Check()
	}
	if err != nil || a.rows.Schema != rowsSchema {
		return archiveFault(rowsFile, "it has no rows of %s: %v; export it again", rowsSchema, err)
	}
	return nil
}
