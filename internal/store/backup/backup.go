package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

// The defaults: how many copies of the database a directory keeps, and the time between two in a worker's schedule.
const (
	DefaultKeep  = 7
	DefaultEvery = 24 * time.Hour
)

// copyTime is the time in the name of a copy of the database, in UTC.
const copyTime = "20060102T150405Z"

var copyName = regexp.MustCompile(`^state-(\d{8}T\d{6}Z)\.db$`)

// Options configures [Run].
type Options struct {
	// Clock returns the current time; it is required.
	Clock func() time.Time
	// Keep is how many copies of the database stay in a directory; zero: [DefaultKeep].
	Keep int
	// Every: nothing is done if the directory has a copy that is younger than this.
	Every time.Duration
}

// Report is that of a backup.
type Report struct {
	// Database is the name of the copy in the backup; empty: nothing was due, or only content was copied.
	Database string `json:"database"`
	// Blobs is how many blobs the backup has of the store; Copied of them were copied now.
	Blobs  int `json:"blobs"`
	Copied int `json:"copied"`
	// Bytes is the size of what was copied.
	Bytes int64 `json:"bytes"`
}

// Run copies a store, while sessions run: the SQLite database as it is at one moment, then every blob, which are therefore those
// that the database names, and more. to is an archive if its name ends in .tar.zst, and else a directory.
// A directory that has a backup of the store gets the missing blobs and one more copy of the database, which has its name only
// once everything that it needs is there. Each blob is verified while it is copied. With damaged blobs, the others are copied
// and the error names all damaged ones. The error is [store.ErrPruning] while another process prunes the store or backs it up.
func Run(ctx context.Context, s *store.Store, to string, o Options) (Report, error) {
	b := &backup{store: s, options: o, to: to, at: o.Clock().UTC().Truncate(time.Second)}
	if o.Keep <= 0 {
		b.options.Keep = DefaultKeep
	}
	if rel, err := filepath.Rel(s.Dir(), to); err == nil && filepath.IsLocal(rel) {
		return b.report, fmt.Errorf("back up to %s: it is in the store itself", to)
	}
	if s.Location().Content != "" {
		return b.report, fmt.Errorf("back up to %s: the content is in a bucket, which `maestro backup` does not copy; back up the "+
			"database with its own tools, and keep versions of the bucket's objects for as long as you keep a backup of the database", to)
	}
	if !b.due() {
		return b.report, nil
	}
	held, err := s.HoldBlobs()
	if err != nil {
		return b.report, fmt.Errorf("back up: %w", err)
	}
	defer held.Unlock()
	if b.due() { // another process may just have done it
		err = b.run(ctx)
	}
	if err != nil {
		return b.report, fmt.Errorf("back up to %s: %w", to, err)
	}
	return b.report, nil
}

// backup is a backup under way.
type backup struct {
	store   *store.Store
	options Options
	to      string
	at      time.Time
	report  Report
	target  target
	present map[spec.Digest]storage.BlobInfo
}

// target is a directory or an archive.
type target interface {
	// has reports whether a file is there with a size already.
	has(name string, size int64) bool
	// add adds a file, as a whole or not at all.
	add(name string, size int64, write func(io.Writer) error) error
	// flush makes what was added survive a power loss.
	flush() error
	// scratch is a path for a temporary file.
	scratch() string
	// close ends the backup; whole: it is complete.
	close(whole bool) error
}

func (b *backup) due() bool {
	names := copiesIn(b.to)
	if b.options.Every == 0 || len(names) == 0 {
		return true
	}
	return b.at.Sub(timeOf(names[len(names)-1])) >= b.options.Every
}

func (b *backup) run(ctx context.Context) (err error) {
	if b.target, err = openTarget(b.to, b.store.ID(), b.at); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.target.close(err == nil)) }()
	database := b.target.scratch()
	if !b.store.State.Shared() {
		if err := b.store.State.CopyTo(ctx, database); err != nil {
			return err
		}
	}
	if err := b.file(store.IdentityFile, filepath.Join(b.store.Dir(), store.IdentityFile)); err != nil {
		return err
	}
	if err := b.blobs(ctx); err != nil {
		return err
	}
	if err := b.target.flush(); err != nil || b.store.State.Shared() {
		return err
	}
	name := "state-" + b.at.Format(copyTime) + ".db"
	if err := b.file(name, database); err != nil {
		return err
	}
	b.report.Database = name
	if d, ok := b.target.(*directoryTarget); ok {
		return errors.Join(b.target.flush(), b.forget(d))
	}
	return nil
}

// file copies a file, which others may replace, but do not change.
func (b *backup) file(name, from string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	b.report.Bytes += info.Size()
	return b.target.add(name, info.Size(), func(w io.Writer) error {
		_, err := io.CopyN(w, f, info.Size())
		return err
	})
}

// blobs copies the blobs.
func (b *backup) blobs(ctx context.Context) error {
	b.present = map[spec.Digest]storage.BlobInfo{}
	if err := b.store.Blobs().ListBlobs(ctx, func(name spec.Digest, info storage.BlobInfo) { b.present[name] = info },
		func(string, string) {}); err != nil {
		return err
	}
	var damaged []error
	for name, info := range b.present {
		b.report.Blobs++
		if b.target.has(storage.BlobKey(name), info.Size) {
			continue
		}
		err := b.target.add(storage.BlobKey(name), info.Size, func(w io.Writer) error {
			_, err := b.store.Content.CopyBlob(ctx, name, w)
			return err
		})
		_, isDamaged := errors.AsType[*cas.Fault](err)
		switch {
		case isDamaged:
			damaged = append(damaged, err)
		case err != nil:
			return err
		default:
			b.report.Copied++
			b.report.Bytes += info.Size
		}
	}
	return errors.Join(damaged...)
}

// forget removes old copies of the database, and blobs that only they named: the store has not had them since the oldest copy
// that stays.
func (b *backup) forget(d *directoryTarget) error {
	names := copiesIn(d.dir)
	if len(names) <= b.options.Keep {
		return nil
	}
	gone := names[:len(names)-b.options.Keep]
	oldest := timeOf(names[len(gone)])
	for _, name := range gone {
		if err := os.Remove(filepath.Join(d.dir, name)); err != nil {
			return err
		}
	}
	return eachFile(d.dir, "blobs", func(name string, info fs.FileInfo) error {
		digest, ok := storage.BlobOf(name)
		_, present := b.present[digest]
		if !ok || present || !info.ModTime().Before(oldest) {
			return nil
		}
		return os.Remove(filepath.Join(d.dir, name))
	})
}

// copiesIn lists the copies of the database in a directory, the newest last.
func copiesIn(dir string) (names []string) {
	entries, _ := os.ReadDir(dir) // sorted
	for _, e := range entries {
		if copyName.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names
}

func timeOf(name string) time.Time {
	at, _ := time.Parse(copyTime, copyName.FindStringSubmatch(name)[1]) // a wrong time is before all others
	return at
}

// eachFile calls do for each regular file below a directory in dir, with its name relative to dir.
func eachFile(dir, below string, do func(name string, info fs.FileInfo) error) error {
	err := fs.WalkDir(os.DirFS(dir), below, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return storage.IgnoreMissing(err)
		}
		info, err := e.Info()
		if err != nil {
			return storage.IgnoreMissing(err)
		}
		return do(name, info)
	})
	return storage.IgnoreMissing(err)
}

// inBackup are the names that a backup may begin with.
var inBackup = []string{store.IdentityFile, "blobs", scratchDir}

// checkTarget refuses a directory that has anything but a backup of the store with an id.
func checkTarget(dir, id string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !slices.Contains(inBackup, e.Name()) && !copyName.MatchString(e.Name()) {
			return fmt.Errorf("it has %s, which is not part of a backup; choose an empty directory, or one that has a backup of this "+
				"store", e.Name())
		}
	}
	other, err := store.IDIn(dir)
	switch {
	case errors.Is(err, session.ErrNotFound):
		return nil
	case err == nil && other != id:
		return fmt.Errorf("it has a backup of store %s, and this is store %s", other, id)
	}
	return err
}
