package cas

import (
	"cmp"
	"io"
	"io/fs"

	"github.com/maestro-hive/maestro/internal/store/storage"
)

const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600
)

// The default limits of a collected tree.
const (
	DefaultFiles           = 200_000
	DefaultFileBytes int64 = 100_000_000
	DefaultTreeBytes int64 = 2_000_000_000
)

// Limits bounds the trees that a store accepts. A zero field means the default.
type Limits struct {
	// Files is the largest number of files and links in one tree.
	Files int
	// FileBytes is the largest size of one file, in bytes.
	FileBytes int64
	// TreeBytes is the largest total size of the files of one tree, in bytes.
	TreeBytes int64
}

// WithDefaults returns the limits with defaults for the fields that are not set.
func (l Limits) WithDefaults() Limits {
	return Limits{cmp.Or(l.Files, DefaultFiles), cmp.Or(l.FileBytes, DefaultFileBytes), cmp.Or(l.TreeBytes, DefaultTreeBytes)}
}

// Options configures a [Store].
type Options struct {
	// Limits bounds the trees that are accepted.
	Limits Limits
	// StoreDir is the store's directory. Messages name the store by it, and no snapshot contains
	// it.
	StoreDir string
}

// Store stores content by its digest, makes trees of directories of this host and fills
// directories from trees. Its methods are safe for concurrent use, and the blobs for use by many
// processes.
type Store struct {
	backend storage.Blobs
	options Options
}

// New returns a Store whose blobs are in the given storage.
func New(in storage.Blobs, o Options) *Store {
	o.Limits = o.Limits.WithDefaults()
	return &Store{in, o}
}

// With returns the store with other limits on trees.
func (s *Store) With(l Limits) *Store {
	o := s.options
	o.Limits = l
	return New(s.backend, o)
}

// closing closes c and stores its error in err if err is nil.
func closing(c io.Closer, err *error) {
	if cerr := c.Close(); *err == nil && cerr != nil {
		*err = cerr
	}
}
