// Package storage is the port to everything mutable in a store: documents, which are replaced
// only if their version has not changed, and blobs, which are immutable.
//
// A [Directory] implements it for processes that share a file system. An object store can
// implement it with conditional writes for documents, and leases for locks. Everything that a lease protects is also protected by versions.
//
// A key is a relative path of names that are separated by slashes. Callers compare the errors
// below with errors.Is. Any other error means that the storage cannot be used at the moment.
package storage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/spec"
)

// ErrNotFound says that a document does not exist. ErrConflict says that its version is not the
// one that the writer expects. ErrKey says that a key is invalid, and ErrTooLarge that a document
// or a line is too large.
var (
	ErrNotFound = errors.New("no such document")
	ErrConflict = errors.New("the document has changed")
	ErrKey      = errors.New("invalid key")
	ErrTooLarge = errors.New("too large")
)

// Size limits, in bytes.
const (
	MaxDocument = 256 << 20
	maxKey      = 1024
	maxName     = 255
)

// Version identifies the content of a document. The zero Version means that the document does not
// exist.
type Version string

// VersionOf returns the version of a document with this content.
func VersionOf(data []byte) Version {
	sum := sha256.Sum256(data)
	return Version(hex.EncodeToString(sum[:]))
}

// Durability says which failures a write survives. Every write is atomic.
type Durability bool

const (
	// UntilPowerLoss is a write that survives crashes of processes, but not a power loss.
	UntilPowerLoss Durability = false
	// Durable is a write that also survives a power loss once the call has returned.
	Durable Durability = true
)

// Storage stores documents and blobs. It is safe for concurrent use by many goroutines
// and many processes.
type Storage interface {
	Documents
	Blobs
	// Delete removes a document with this version.
	Delete(key string, version Version) error
	// List returns the names directly below a key, sorted. Names that have others below them end
	// in a slash. If there is nothing below the key, the list is empty.
	List(key string) ([]string, error)
	// ModTime returns the time of the last write of a document, by the storage's clock. For a name that
	// has others below it, it is the time when a document directly below it was last created,
	// replaced or removed.
	ModTime(key string) (time.Time, error)
	// Below lists the names directly below a key that have others below them, unordered, each
	// with its ModTime. It is fast enough to find changes among many names.
	Below(key string) ([]Entry, error)
	// Clock returns the time by the storage's clock. If the storage is shared, this may be the
	// clock of another machine. The call writes a temporary file.
	Clock() (time.Time, error)
	// KeepReserve reserves space for durable writes on a full storage. It has to be called
	// periodically, because such a write uses up the reserve.
	KeepReserve() error
	// Stage returns a new, empty storage whose content can be published to this one atomically.
	Stage() (Stage, error)
	// Quarantine moves a damaged document to the quarantine and returns its new key.
	Quarantine(key string, version Version) (string, error)
	// Lock takes a lock that is held only for short times; it waits for other holders. While it
	// is held, only its holder can write the document of its key.
	Lock(ctx context.Context, key string) (Locked, error)
	// Hold takes a lock for the duration of some work; ok is false if it is held already. The
	// lock ends when it is unlocked, or when its holder has ended. For a Directory, the holders
	// are the process and all processes that have inherited the descriptor. An object store
	// grants a lease that its holder renews. A lease can expire while its holder still works, so
	// everything that is written under a hold has a version or an incarnation that excludes late
	// writers.
	Hold(key string) (held Hold, ok bool, err error)
}

// Entry is a name that has others below it, with its ModTime.
type Entry struct {
	Name     string
	Modified time.Time
}

// Stage is a separate storage. Nothing in it is durable before it is published.
type Stage interface {
	Storage
	// Publish moves the documents below a key, and blobs, durably to the storage
	// that made the stage, verified by the caller. After a failure, either everything
	// below the key is there, or nothing. The error is ErrConflict if something exists below the
	// key already.
	Publish(ctx context.Context, key string, blobs []spec.Digest) error
	// Close removes everything that was not published.
	Close() error
}

// Hold is a lock that is held for the duration of some work.
type Hold interface {
	// Fd returns the descriptor that child processes inherit to keep the lock.
	Fd() uintptr
	// Unlock releases the lock, also for processes that have inherited it.
	Unlock()
}

// Documents reads and writes documents.
type Documents interface {
	// Read returns a document and its version.
	Read(key string) ([]byte, Version, error)
	// Write replaces a document if it has this version, or creates it if version is zero and it
	// does not exist. It returns the new version.
	Write(key string, data []byte, version Version, d Durability) (Version, error)
}

// Locked is a lock that is held. Its Write writes the document of the lock.
type Locked interface {
	Documents
	// Close releases the lock.
	Close() error
}

// CheckKey returns an ErrKey if a key is not valid.
func CheckKey(key string) error {
	if len(key) > maxKey {
		return fmt.Errorf("%w: it has %d bytes, and at most %d are allowed", ErrKey, len(key), maxKey)
	}
	for name := range strings.SplitSeq(key, "/") {
		if name == "" || name == "." || name == ".." || len(name) > maxName || strings.ContainsAny(name, "\x00\\") {
			return fmt.Errorf("%w: %.80q", ErrKey, key)
		}
	}
	return nil
}
