package store

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/state"
	"github.com/maestro-hive/maestro/internal/storage"
)

const (
	// formatVersion is the version of the layout that this package reads and writes.
	formatVersion = 1

	identityFile = "store.json"
)

// Options configures how a process uses a store.
type Options struct {
	// Clock returns the current time; it is required.
	Clock func() time.Time
	// Limits bounds the trees that are accepted.
	Limits cas.Limits
}

// Store is an open store. Its parts read and write documents and, in Content, blobs.
// Its methods are safe for concurrent use by many goroutines and many processes.
type Store struct {
	// State is the database. A store that an archive is unpacked into has none.
	State *state.DB
	// Content stores the blobs that documents refer to.
	Content *cas.Store
	*documents
	sessions
	*checkpoints
	records
	offers
	breakers
	tickets
	teams
}

type identity struct {
	ID      string `json:"id"`
	Version int    `json:"version"`
}

var idPattern = regexp.MustCompile(`^[a-z0-9]{4,32}$`)

// Create makes a store in dir, which must not exist or be empty, or opens the store that exists
// there. If several processes do that at once, one makes the store and all open it. The directory
// is readable by its owner only.
func Create(dir string, o Options) (*Store, error) {
	s, err := Open(dir, o)
	if !errors.Is(err, session.ErrNotFound) {
		return s, err
	}
	d, err := storage.NewDirectory(dir, o.Clock)
	if err != nil {
		return nil, err
	}
	var seed [5]byte
	_, _ = rand.Read(seed[:]) // never fails
	id := identity{ID: strings.ToLower(base32.StdEncoding.EncodeToString(seed[:])), Version: formatVersion}
	data, err := json.MarshalIndent(id, "", "  ")
	if err == nil {
		err = d.Create(identityFile, append(data, '\n'))
	}
	if err != nil {
		return nil, err
	}
	return Open(dir, o)
}

// Open opens the store in dir. The error is [session.ErrNotFound] if there is none.
func Open(dir string, o Options) (*Store, error) {
	if o.Clock == nil {
		return nil, errors.New("a store needs a clock")
	}
	d, err := storage.NewDirectory(dir, o.Clock)
	if err != nil {
		return nil, err
	}
	id, err := readIdentity(d, d.Root())
	if err != nil {
		return nil, err
	}
	d.RemoveOldTemp()
	s := newStore(d, d.Root(), path.Join(d.Root(), "stamps"), id.ID, o)
	s.state, err = state.OpenSQLite(context.Background(), d.Root(), state.Options{Now: o.Clock, FreeReserve: d.FreeReserve})
	s.State = s.state
	return s, err
}

// Close closes the database.
func (s *Store) Close() error {
	if s.State == nil {
		return nil
	}
	return s.State.Close()
}

// newStore returns the store in a storage. stampsDir is [cas.Options.StampsDir].
func newStore(docs storage.Storage, dir, stampsDir, id string, o Options) *Store {
	content := cas.New(docs, cas.Options{Limits: o.Limits, StoreDir: dir, StampsDir: stampsDir})
	d := &documents{docs: docs, dir: dir, id: id, now: o.Clock}
	s := sessions{d, &decodedCache[session.Execution]{}}
	return &Store{
		Content: content, documents: d, sessions: s, checkpoints: &checkpoints{documents: d, sessions: s, content: content}, records: records{d, s},
		offers: offers{d}, breakers: breakers{d}, tickets: tickets{d}, teams: teams{d},
	}
}

func readIdentity(docs storage.Documents, dir string) (identity, error) {
	var id identity
	data, _, err := docs.Read(identityFile)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return id, fmt.Errorf("%s is not a store (missing %s): %w; start a worker with this directory to create one, or give the right directory", dir, identityFile, session.ErrNotFound)
	case err != nil:
		return id, fmt.Errorf("open the store: %w", err)
	}
	err = json.Unmarshal(data, &id)
	switch {
	case err != nil, !idPattern.MatchString(id.ID), id.Version < 1:
		return id, fmt.Errorf("%s/%s does not have a store's id and version: %w; restore it from a backup: {\"id\": \"<the store's id>\", \"version\": %d}", dir, identityFile, session.ErrCorrupt, formatVersion)
	case id.Version > formatVersion:
		return id, fmt.Errorf("the store in %s has format %d, but this program supports %d; use the version of Maestro that created it, or a newer one", dir, id.Version, formatVersion)
	}
	return id, nil
}

// ID returns the store's id.
func (s *Store) ID() string { return s.id }

// Dir returns the store's absolute directory, which names the store in messages.
func (s *Store) Dir() string { return s.dir }

// KeepReserve reserves disk space for small writes on a full disk.
func (s *Store) KeepReserve() error { return s.docs.KeepReserve() }

// Clock returns the time by the clock of the store's file system. If that is shared, it is the
// clock of another machine.
func (s *Store) Clock() (time.Time, error) { return s.docs.Clock() }

// Storage returns the storage of the store's documents, for packages that keep other documents
// there, such as permissions and the audit log.
func (s *Store) Storage() storage.Storage { return s.docs }
