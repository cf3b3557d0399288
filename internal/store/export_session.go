package store

import (
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

// Archive describes an exported session. The archive itself is a gzipped tar of the session's rows and the
// blobs that they need, sorted by name and without times, so that equal sessions have equal archives.
type Archive struct {
	Session     string      `json:"session"`
	Head        spec.Digest `json:"head"`
	Checkpoints int         `json:"checkpoints"`
	Records     int         `json:"records"`
	Blobs       int         `json:"blobs"`
	// Bytes is the size of rows and blobs before compression, in bytes.
	Bytes int64 `json:"bytes"`
	// Transcripts reports whether the transcripts of attempts are included.
	Transcripts bool `json:"transcripts"`
}

// rowsFile is the file of an archive with the session's rows.
const (
	rowsFile   = "rows.json"
	rowsSchema = "maestro.rows/v1"
)

// sessionArchive is the file of an archive of a session. Those of real sessions are far below its limits.
var sessionArchive = ArchiveFile{Document: rowsFile, MaxDocument: 256 << 20, MaxFile: 1 << 40, MaxBytes: 1 << 40}

// archivedRows are a session's rows in an archive.
type archivedRows struct {
	Schema      string      `json:"schema"`
	Session     session.Key `json:"session"`
	Transcripts bool        `json:"transcripts"`
	Rows        state.Rows  `json:"rows"`
}

// ExportSession writes a session's archive: everything that is needed to resume it in another
// store, and with transcripts the output of its agents. Everything is verified while it is
// written. After an error, the written part must not be used.
func (s *Store) ExportSession(ctx context.Context, key session.Key, transcripts bool, w io.Writer) (Archive, error) {
	e := &sessionExport{store: s, key: key, verification: newVerification(s)}
	e.archive.Session, e.archive.Transcripts = key.Session, transcripts
	err := e.collect(ctx)
	if err == nil {
		e.archive.Blobs = len(e.needed)
		e.archive.Bytes, err = sessionArchive.Write(ctx, w, e.rows, s.Content, slices.Collect(maps.Keys(e.needed)))
	}
	if err != nil {
		return Archive{}, fmt.Errorf("export session %s: %w", key.Session, err)
	}
	return e.archive, nil
}

// sessionExport is a running export of a session.
type sessionExport struct {
	*verification // records the blobs that the session needs
	store         *Store
	key           session.Key
	archive       Archive
	// rows are the content of [rowsFile].
	rows []byte
}

// collect reads the session's rows, and records the blobs that they need.
func (e *sessionExport) collect(ctx context.Context) error {
	list, err := e.store.Checkpoints(ctx, e.key)
	if len(list) == 0 {
		err = errors.Join(err, errors.New("it has no readable checkpoint"))
	}
	if err != nil {
		return err
	}
	if _, err := e.store.State.Calls(ctx, state.Assignment{Key: e.key}); err != nil { // it verifies them
		return err
	}
	e.archive.Head, e.archive.Checkpoints = list[0].Name, len(list)
	rows, roots, err := e.store.State.Dump(ctx, e.key, e.archive.Transcripts)
	if err != nil {
		return err
	}
	e.rows, err = encodeDigested(archivedRows{rowsSchema, e.key, e.archive.Transcripts, rows})
	if err == nil {
		err = e.roots(ctx, roots)
	}
	if err != nil {
		return err
	}
	e.archive.Records = rows.Records()
	return e.joined()
}
