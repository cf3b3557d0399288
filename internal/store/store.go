package store

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

const (
	// formatVersion is the version of the layout that this package reads and writes.
	formatVersion = 1

	// IdentityFile is the file with the id of a store.
	IdentityFile = "store.json"
)

// Options configures how a process uses a store.
type Options struct {
	// Clock returns the current time; it is required.
	Clock func() time.Time
	// Limits bounds the trees that are accepted.
	Limits cas.Limits
	// Location is where the store is besides its directory.
	Location
	// CacheBytes bounds the copies of a bucket's content in the directory; zero: 20 GB.
	CacheBytes int64
}

// Store is an open store. Its methods are safe for concurrent use by many goroutines and many processes.
type Store struct {
	// State is the database.
	State *state.DB
	// Content stores the blobs that rows name.
	Content *cas.Store
	// blobs are the same blobs, unverified.
	blobs storage.Content
	// bucket is the same, if it is in a bucket; else nil.
	bucket *storage.Bucket
	// mirror has the mirror of sessions.
	mirror storage.Files
	// files has the store's id and locks.
	files *storage.Directory
	id    string
	// host identifies this host among those that share the database.
	host     string
	location Location
	now      func() time.Time
}

type identity struct {
	ID      string `json:"id"`
	Version int    `json:"version"`
	// Host is the id of the host that the directory is on, if several hosts share the database.
	Host string `json:"host,omitempty"`
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
	if err := createIdentity(d, identity{ID: randomID()}); err != nil {
		return nil, err
	}
	return Open(dir, o)
}

// randomID is a new id of a store or of a host.
func randomID() string { return strings.ToLower(rand.Text()[:8]) }

// createIdentity makes the directory of a store with its identity, unless there is one.
func createIdentity(d *storage.Directory, id identity) error {
	id.Version = formatVersion
	data, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	return d.Create(IdentityFile, append(data, '\n'))
}

// Open opens the store in dir. The error is [session.ErrNotFound] if there is none. With a database, dir has only what belongs to
// this host, and is made if it does not exist.
func Open(dir string, o Options) (*Store, error) {
	if o.Clock == nil {
		return nil, errors.New("a store needs a clock")
	}
	d, err := storage.NewDirectory(dir, o.Clock)
	if err != nil {
		return nil, err
	}
	var db *state.DB
	var id identity
	if o.Database != "" {
		db, id, err = openShared(context.Background(), d, o.Location)
	} else if id, err = readIdentity(d); err == nil {
		db, err = openOwn(context.Background(), d, id, o)
	}
	if err != nil {
		return nil, err
	}
	d.RemoveOldTemp()
	s := &Store{State: db, blobs: d, mirror: d, files: d, id: id.ID, host: id.Host, location: o.Location, now: o.Clock}
	if o.Content != "" {
		if s.bucket, err = storage.OpenBucket(context.Background(), storage.BucketOptions{
			Address: o.Content, Cache: d, CacheBytes: o.CacheBytes, Rows: db, KindOf: kindOfHead,
		}); err != nil {
			return nil, errors.Join(err, db.Close())
		}
		s.blobs, s.mirror = s.bucket, s.bucket
	}
	s.Content = cas.New(s.blobs, cas.Options{Limits: o.Limits, StoreDir: d.Root()})
	return s, nil
}

// Close closes the database, and the connections to a bucket.
func (s *Store) Close() error {
	if s.bucket != nil {
		return errors.Join(s.bucket.Close(), s.State.Close())
	}
	return s.State.Close()
}

// IDIn returns the id of the store in a directory, or of its backup. The error is [session.ErrNotFound] if there is none.
func IDIn(dir string) (string, error) {
	d, err := storage.NewDirectory(dir, nil) // only writing needs a clock
	if err != nil {
		return "", err
	}
	id, err := readIdentity(d)
	return id.ID, err
}

func readIdentity(d *storage.Directory) (id identity, err error) {
	dir := d.Root()
	data, err := d.Read(context.Background(), IdentityFile)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return id, fmt.Errorf("%s is not a store (missing %s): %w; start a worker with this directory to create one, or give the "+
			"right directory", dir, IdentityFile, session.ErrNotFound)
	case err != nil:
		return id, fmt.Errorf("open the store: %w", err)
	}
	err = json.Unmarshal(data, &id)
	switch {
	case err != nil, !idPattern.MatchString(id.ID), id.Version < 1:
		return id, fmt.Errorf("%s/%s does not have a store's id and version: %w; restore it from a backup: {\"id\": \"<the store's "+
			"id>\", \"version\": %d}", dir, IdentityFile, session.ErrCorrupt, formatVersion)
	case id.Version > formatVersion:
		return id, fmt.Errorf("the store in %s has format %d, but this program supports %d; use the version of Maestro that created "+
			"it, or a newer one", dir, id.Version, formatVersion)
	}
	return id, nil
}

// ID returns the store's id.
func (s *Store) ID() string { return s.id }

// Dir returns the store's absolute directory, which names the store in messages.
func (s *Store) Dir() string { return s.files.Root() }

// HostID identifies this host among those that share the database; empty if none does.
func (s *Store) HostID() string { return s.host }

// Location returns where the store is besides its directory.
func (s *Store) Location() Location { return s.location }

// KeepReserve reserves disk space for small writes on a full disk.
func (s *Store) KeepReserve() error { return s.files.KeepReserve() }

// Blobs are the blobs of Content as they are stored. Reading them verifies nothing.
func (s *Store) Blobs() storage.Content { return s.blobs }
