// Package cas is content-addressed storage: blobs under their SHA-256, manifests of
// directory trees, deltas between them, and the work between a tree and a directory.
//
// What is read is verified. What does not verify is moved to quarantine/ and reported
// as [session.ErrCorrupt]. It knows no sessions: what needs a blob is for package store.
package cas

import (
	"io"
	"io/fs"
	"time"

	"github.com/maestro-hive/maestro/internal/storage"
)

const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600
)

// The default limits of what a collection accepts.
const (
	DefaultFiles           = 200_000
	DefaultFileBytes int64 = 100 << 20
	DefaultTreeBytes int64 = 2_000_000_000
)

// Limits bounds the trees that a store accepts. Zero fields mean the default.
type Limits struct {
	// Files is the largest number of files and links in one tree.
	Files int
	// FileBytes is the largest size of one file, in bytes.
	FileBytes int64
	// TreeBytes is the largest size of all files of one tree together, in bytes.
	TreeBytes int64
}

// WithDefaults returns the limits with the default for each that is not set.
func (l Limits) WithDefaults() Limits {
	if l.Files <= 0 {
		l.Files = DefaultFiles
	}
	if l.FileBytes <= 0 {
		l.FileBytes = DefaultFileBytes
	}
	if l.TreeBytes <= 0 {
		l.TreeBytes = DefaultTreeBytes
	}
	return l
}

// Options says how content is stored.
type Options struct {
	// Clock tells the time.
	Clock func() time.Time
	// Limits bounds the trees that are accepted.
	Limits Limits
	// IndexFrom is the number of files from which on a directory that was
	// filled is remembered, so that what is unchanged need not be read again;
	// zero: always. Of fewer files, reading costs less than remembering.
	IndexFrom int
	// IndexDir has what is remembered of directories of this host; empty: nothing is.
	IndexDir string
	// StoreDir is the store's directory, by which messages name the store, and which no
	// snapshot contains.
	StoreDir string
}

// Store has content by its digest, and works between trees and directories of this host.
// Its methods may be used by many goroutines, and the blobs by many processes.
type Store struct {
	*blobs
	trees
	indexes
	// dir is the store's directory, which no snapshot contains.
	dir       string
	limits    Limits
	indexFrom int
}

// New returns the content whose blobs are kept there.
func New(in storage.Blobs, o Options) *Store {
	x := indexes{o.IndexDir}
	b := &blobs{in: in, now: o.Clock, store: o.StoreDir, recent: newRecentlyRead(o.Clock), indexes: x}
	return &Store{blobs: b, trees: trees{b}, indexes: x, dir: o.StoreDir, limits: o.Limits.WithDefaults(), indexFrom: o.IndexFrom}
}

// closing closes c and keeps the first error.
func closing(c io.Closer, err *error) {
	if cerr := c.Close(); *err == nil && cerr != nil {
		*err = cerr
	}
}
