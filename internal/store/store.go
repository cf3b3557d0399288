package store

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/storage"
)

const (
	// formatVersion is the version of the layout that this package reads and writes.
	formatVersion = 1

	identityFile = "store.json"
	// creationPrefix marks files of a creation under way, which do not make a
	// directory count as in use.
	creationPrefix = ".store-"

	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600

	// staleTemp is the age at which a temporary file has no living writer.
	staleTemp = 24 * time.Hour
)

// Options says how a process uses a store.
type Options struct {
	// Clock tells the time; it is required.
	Clock func() time.Time
	// Limits bounds the trees that are accepted.
	Limits cas.Limits
	// IndexFrom is the number of files from which on a directory that was
	// filled is remembered, so that what is unchanged need not be read again;
	// zero: always. Of fewer files, reading costs less than remembering.
	IndexFrom int
	// Reading: the process does not write. Others are refused with [OwnerError] where
	// what they would leave could not be read by the store's owner.
	Reading bool
}

// Store is an open store: documents and journals, and the content that they name. Its
// methods may be used by many goroutines, and the directory by many processes.
type Store struct {
	*cas.Store
	dir string
	id  string
	now func() time.Time
	// sealed are the digests of documents whose seal was found good.
	sealed cas.RecentDigests
	parts  partCache
	// docs has what changes: documents and journals. files has it, too.
	docs  storage.Storage
	files *storage.Directory
}

type identity struct {
	ID      string `json:"id"`
	Version int    `json:"version"`
}

var idPattern = regexp.MustCompile(`^[a-z0-9]{4,32}$`)

// Create makes a store in dir, which must be absent or empty, or opens the one
// that is there. Of several processes that create at once, one makes the store
// and all open it. The directory is readable by its owner only.
func Create(dir string, o Options) (*Store, error) {
	s, err := Open(dir, o)
	if !errors.Is(err, session.ErrNotFound) {
		return s, err
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, fmt.Errorf("create the store's directory: %w; create it yourself, or choose another", err)
	}
	if err := checkVacant(dir); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, dirMode); err != nil {
		return nil, fmt.Errorf("restrict the store to its owner: %w; choose another directory", err)
	}
	if err := claim(dir); err != nil {
		return nil, fmt.Errorf("create a store in %s: %w", dir, err)
	}
	return Open(dir, o)
}

// checkVacant refuses a directory that holds anything but beginnings of a store.
func checkVacant(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read the store's directory: %w", err)
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case name == identityFile:
			return nil // another process was faster
		case name == "lost+found", strings.HasPrefix(name, creationPrefix):
		default:
			return fmt.Errorf("%s is neither empty nor a store: it has %q and no %s; give an empty directory, or a store", dir, name, identityFile)
		}
	}
	return nil
}

// claim puts a new identity into dir unless another process has done so.
func claim(dir string) error {
	var seed [5]byte
	if _, err := rand.Read(seed[:]); err != nil {
		return fmt.Errorf("find an id: %w", err)
	}
	id := strings.ToLower(base32.StdEncoding.EncodeToString(seed[:]))
	data, err := json.MarshalIndent(identity{ID: id, Version: formatVersion}, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, creationPrefix+"*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // a leftover does no harm
	if err := storage.WriteAll(f, append(data, '\n'), true); err != nil {
		return err
	}
	// A link, unlike a rename, does not replace what another process made.
	if err := os.Link(f.Name(), filepath.Join(dir, identityFile)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return storage.SyncDir(dir)
}

// Open opens the store in dir. Where there is none the error is
// [session.ErrNotFound].
func Open(dir string, o Options) (*Store, error) {
	if o.Clock == nil {
		return nil, errors.New("a store needs a clock")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find the store's directory: %w", err)
	}
	id, err := readIdentity(abs)
	if err == nil && !o.Reading {
		err = checkOwner(abs)
	}
	if err != nil {
		return nil, err
	}
	s := newStore(abs, id.ID, o)
	s.sweep()
	return s, nil
}

// newStore connects a store with its directory.
func newStore(dir, id string, o Options) *Store {
	s := &Store{dir: dir, id: id, now: o.Clock}
	s.files = storage.NewDirectory(dir, s.now, s.withReserve)
	s.docs = s.files
	s.Store = cas.New(s.docs, cas.Options{
		Clock: s.now, Limits: o.Limits, StoreDir: dir, IndexDir: s.path("index"), IndexFrom: o.IndexFrom,
	})
	return s
}

func readIdentity(dir string) (identity, error) {
	var id identity
	path := filepath.Join(dir, identityFile)
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return id, fmt.Errorf("%s is not a store (missing %s): %w; start a worker with this directory to create one, or give the right directory", dir, identityFile, session.ErrNotFound)
	case err != nil:
		return id, fmt.Errorf("open the store: %w", err)
	}
	err = json.Unmarshal(data, &id)
	switch {
	case err != nil, !idPattern.MatchString(id.ID), id.Version < 1:
		return id, fmt.Errorf("%s does not have a store's id and version: %w; restore it from a backup: {\"id\": \"<the store's id>\", \"version\": %d}", path, session.ErrCorrupt, formatVersion)
	case id.Version > formatVersion:
		return id, fmt.Errorf("the store in %s has format %d, but this program supports %d; use the version of Maestro that created it, or a newer one", dir, id.Version, formatVersion)
	}
	return id, nil
}

// ID is the store's id.
func (s *Store) ID() string { return s.id }

// Dir is the store's directory, absolute.
func (s *Store) Dir() string { return s.dir }

// path joins names below the store's directory.
func (s *Store) path(names ...string) string {
	return filepath.Join(append([]string{s.dir}, names...)...)
}

// rel names a file for people: relative to the store.
func (s *Store) rel(path string) string { return s.files.Rel(path) }

// sweep removes temporary files whose writers are long dead. It is housekeeping:
// what it cannot remove now, a later one will.
func (s *Store) sweep() {
	entries, err := os.ReadDir(s.path("tmp"))
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && s.now().Sub(info.ModTime()) > staleTemp {
			_ = os.RemoveAll(s.path("tmp", e.Name()))
		}
	}
}

// closing closes c and keeps the first error.
func closing(c io.Closer, err *error) {
	if cerr := c.Close(); *err == nil && cerr != nil {
		*err = cerr
	}
}
