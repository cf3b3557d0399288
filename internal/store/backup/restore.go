package backup

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

// RestoreOptions configures a [Restore].
type RestoreOptions struct {
	// Clock returns the current time; it is required.
	Clock func() time.Time
	// Replace: a database that is not damaged is moved aside, too.
	Replace bool
}

// Restored is the report of [Restore].
type Restored struct {
	// Database is the copy that is now the database.
	Database string `json:"database"`
	// MovedAside is the name of the database that was there; empty: there was none.
	MovedAside string `json:"moved_aside,omitempty"`
	// Blobs is how many blobs the backup has; Copied of them were missing, or damaged.
	Blobs  int `json:"blobs"`
	Copied int `json:"copied"`
	// Open are the sessions that had not ended at the time of the backup.
	Open []session.Key `json:"open"`
	// Faults are damaged files of the backup, and faults that a verification has found after the restore.
	Faults []cas.Fault `json:"faults"`
}

// InUseError says that a process uses the directory that is to be restored.
type InUseError struct {
	Dir string
	PID int
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("process %d uses %s; stop all workers and servers first", e.PID, e.Dir)
}

// ErrHealthy says that there is a database that is not damaged.
var ErrHealthy = errors.New("it has a database that is not damaged")

// Restore puts a backup into a state directory that is empty, or whose database is damaged. from is a directory with backups, of
// which the newest database is taken, one copy of a database in such a directory, or an archive. Blobs that are
// there stay if they are intact. The database gets the next generation, so that processes with an earlier one change nothing. A
// restore that was interrupted can be repeated.
func Restore(ctx context.Context, from, dir string, o RestoreOptions) (report Restored, err error) {
	r := &restoring{dir: dir}
	r.report.Faults, r.report.Open = []cas.Fault{}, []session.Key{}
	if err := r.check(ctx, o); err != nil {
		return r.report, fmt.Errorf("restore into %s: %w", dir, err)
	}
	if err := r.run(ctx, from, o); err != nil {
		return r.report, fmt.Errorf("restore %s: %w", from, err)
	}
	s, err := store.Open(dir, store.Options{Clock: o.Clock})
	if err != nil {
		return r.report, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	verified, err := s.VerifyAll(ctx) // it writes the mirror
	r.report.Faults = append(r.report.Faults, verified.Faults...)
	if err == nil {
		r.report.Open, err = s.State.OpenSessions(ctx)
	}
	return r.report, err
}

// restoring is a restore under way.
type restoring struct {
	dir    string
	target *directoryTarget
	report Restored
	// label is part of the name of the database that is moved aside.
	label string
}

// check refuses a directory that is in use, or that has something else than a damaged store.
func (r *restoring) check(ctx context.Context, o RestoreOptions) error {
	if err := os.MkdirAll(r.dir, dirMode); err != nil {
		return err
	}
	if pid, err := state.UsedBy(r.dir); err != nil || pid != 0 {
		return errors.Join(err, &InUseError{r.dir, pid})
	}
	if _, err := store.IDIn(r.dir); errors.Is(err, session.ErrNotFound) {
		entries, err := os.ReadDir(r.dir)
		if err == nil && (len(entries) > 1 || len(entries) == 1 && entries[0].Name() != scratchDir) {
			err = errors.New("it is neither empty nor a state directory")
		}
		return err
	}
	r.label = "damaged"
	if _, err := os.Lstat(filepath.Join(r.dir, state.FileName)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	some, err := sessionsIn(ctx, r.dir, o)
	switch {
	case errors.Is(err, state.ErrDamaged):
		return nil
	case o.Replace || err == nil && !some:
		r.label = "replaced"
		return nil
	case err == nil: // a restore may have put it there, and ended before it removed its scratch directory
		return errors.Join(ErrHealthy, os.RemoveAll(filepath.Join(r.dir, scratchDir)))
	}
	return err
}

// sessionsIn reports whether an intact database has sessions.
func sessionsIn(ctx context.Context, dir string, o RestoreOptions) (some bool, err error) {
	db, err := state.OpenSQLite(ctx, dir, state.Options{Now: o.Clock})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.Check(ctx); err != nil {
		return false, err
	}
	return db.HasSessions(ctx)
}

func (r *restoring) run(ctx context.Context, from string, o RestoreOptions) (err error) {
	if r.target, err = newDirectoryTarget(r.dir, o.Clock()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.target.close(true)) }()
	each := eachInBackup
	if isArchive(from) {
		each = eachInArchive
	}
	if err := each(from, func(name string, f io.Reader) error { return r.file(ctx, name, f) }); err != nil {
		return err
	}
	if r.report.Database == "" {
		return errors.New("it has no complete copy of a database; a PostgreSQL database is restored with PostgreSQL's own tools")
	}
	if err := r.target.flush(); err != nil {
		return err
	}
	return r.install(ctx, o)
}

// file takes a file of the backup.
func (r *restoring) file(ctx context.Context, name string, f io.Reader) error {
	digest, isBlob := storage.BlobOf(name)
	switch {
	case name == store.IdentityFile:
		return r.identity(ctx, f)
	case isBlob:
		return r.blob(ctx, digest, f)
	case copyName.MatchString(name):
		r.report.Database = name
		return r.target.add(scratchDir+"/"+state.FileName, 0, copyOf(ctx, f))
	}
	return fmt.Errorf("%.200q is not part of a backup", name)
}

func copyOf(ctx context.Context, f io.Reader) func(io.Writer) error {
	return func(w io.Writer) error {
		_, _, err := storage.Copy(ctx, w, f)
		return err
	}
}

// identity takes the id of the store, which must be that of a store that is there.
func (r *restoring) identity(ctx context.Context, f io.Reader) error {
	const taken = scratchDir + "/" + store.IdentityFile
	if err := r.target.add(taken, 0, copyOf(ctx, f)); err != nil {
		return err
	}
	id, err := store.IDIn(filepath.Join(r.dir, scratchDir))
	if err != nil {
		return err
	}
	there, err := store.IDIn(r.dir)
	switch {
	case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrCorrupt):
		return r.target.root.Rename(taken, store.IdentityFile)
	case err == nil && there != id:
		return fmt.Errorf("it is a backup of store %s, and %s is that of store %s", id, r.dir, there)
	}
	return err
}

// blob takes a blob, unless an intact one is there. A damaged one is noted.
func (r *restoring) blob(ctx context.Context, digest spec.Digest, f io.Reader) error {
	r.report.Blobs++
	name := storage.BlobKey(digest)
	if old, err := r.target.root.Open(name); err == nil {
		err = copyVerified(ctx, io.Discard, old, digest)
		if errors.Join(err, old.Close()) == nil {
			return nil
		}
	}
	err := r.target.add(name, 0, func(w io.Writer) error { return copyVerified(ctx, w, f, digest) })
	if fault, ok := errors.AsType[*cas.Fault](err); ok {
		r.report.Faults = append(r.report.Faults, *fault)
		return nil
	}
	r.report.Copied++
	return err
}

// copyVerified copies a blob, and returns a [cas.Fault] if it has not the digest.
func copyVerified(ctx context.Context, w io.Writer, f io.Reader, digest spec.Digest) error {
	_, found, err := storage.Copy(ctx, w, f)
	if err == nil && found != digest {
		what := "the backup has other content, with the digest " + string(found)
		err = &cas.Fault{Path: storage.BlobKey(digest), What: what, Kind: session.ErrCorrupt}
	}
	return err
}

// install makes the copy of the database the store's. What it names is there by then.
func (r *restoring) install(ctx context.Context, o RestoreOptions) error {
	db, err := state.OpenSQLite(ctx, filepath.Join(r.dir, scratchDir), state.Options{Now: o.Clock})
	if err == nil {
		err = errors.Join(db.Check(ctx), db.BeginGeneration(ctx), db.Close())
	}
	if err != nil {
		return fmt.Errorf("%s, the copy of the database: %w", r.report.Database, err)
	}
	if err := storage.FlushFileSystem(r.dir); err != nil {
		return err
	}
	aside := fmt.Sprintf("%s.%s-%s", state.FileName, r.label, o.Clock().UTC().Format(copyTime))
	for _, suffix := range []string{"-shm", "-wal", ""} { // a log of another database must not be beside the new one
		err := r.target.root.Rename(state.FileName+suffix, aside+suffix)
		if err == nil && suffix == "" {
			r.report.MovedAside = aside
		}
		if err := storage.IgnoreMissing(err); err != nil {
			return err
		}
	}
	if err := r.target.root.Rename(scratchDir+"/"+state.FileName, state.FileName); err != nil {
		return err
	}
	return storage.FlushFileSystem(r.dir)
}

// eachInBackup reads the files of a directory of backups, or of the one that has a copy of a database.
func eachInBackup(from string, do func(name string, f io.Reader) error) error {
	dir, database := from, ""
	if copyName.MatchString(filepath.Base(from)) {
		dir, database = filepath.Split(from)
	} else if names := copiesIn(dir); len(names) > 0 {
		database = names[len(names)-1]
	}
	if database == "" {
		return fmt.Errorf("%s has no complete backup", dir)
	}
	read := func(name string, _ fs.FileInfo) error {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // only read
		return do(name, f)
	}
	for _, name := range []string{store.IdentityFile, database} {
		if err := read(name, nil); err != nil {
			return err
		}
	}
	return eachFile(dir, "blobs", read)
}

// eachInArchive reads the files of an archive.
func eachInArchive(from string, do func(name string, f io.Reader) error) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	packed, err := zstd.NewReader(file)
	if err != nil {
		return err
	}
	defer packed.Close()
	for t := tar.NewReader(packed); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		if h.Typeflag != tar.TypeReg {
			return fmt.Errorf("%.200q is not a regular file", h.Name)
		}
		if err := do(h.Name, t); err != nil {
			return err
		}
	}
}
