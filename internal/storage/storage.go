// Package storage is the port below everything that changes in a store: documents, which
// are replaced if their version is still the same, journals, which only grow, and blobs,
// which are written once. A
// [Directory] is its implementation for processes that share a file system. An object
// store can be another: conditional writes for documents, one object for each line of a
// journal, and leases for locks. Whatever a lease protects is protected by versions, too.
//
// A key is a relative path of names that are separated by slashes. The errors below are
// compared with errors.Is; any other error means that the storage cannot be used at the
// moment.
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

// ErrNotFound says that there is no such document. ErrConflict says that a document has
// another version than the writer knows. ErrKey says that a key is not valid, and
// ErrTooLarge that a document or a line is too large.
var (
	ErrNotFound = errors.New("no such document")
	ErrConflict = errors.New("the document has changed")
	ErrKey      = errors.New("invalid key")
	ErrTooLarge = errors.New("too large")
)

// The bounds of what a storage keeps, in bytes.
const (
	MaxDocument = 256 << 20
	MaxLine     = 16 << 20
	maxKey      = 1024
	maxName     = 255
)

// Version names the content of a document. The zero Version says that there is none.
type Version string

// VersionOf returns the version of a document with this content.
func VersionOf(data []byte) Version {
	sum := sha256.Sum256(data)
	return Version(hex.EncodeToString(sum[:]))
}

// Durability says what a write outlives. Any write is whole or did not happen.
type Durability bool

const (
	// UntilPowerLoss is a write that outlives any crash of processes.
	UntilPowerLoss Durability = false
	// Durable is a write that also outlives a power loss, before the call returns.
	Durable Durability = true
)

// Storage keeps documents and journals. It may be used from many goroutines, and the same
// storage by many processes.
type Storage interface {
	Documents
	Blobs
	// Append adds a line, without its end, to a journal, durably. A line that an append
	// has left unfinished is cut off. The line that is the journal's last already is not
	// added again, so an append can be repeated after an error. Only one process may
	// append to a journal at a time.
	Append(key string, line []byte) error
	// Delete removes a document of a version, or a journal.
	Delete(key string, version Version) error
	// List returns the names directly below a key, sorted: documents and journals, and
	// with a slash at their end the names that have others below them. Nothing there is
	// no error.
	List(key string) ([]string, error)
	// ModTime is when a document or a journal was written last, by the storage's clock. Of a
	// name that has others below it, it is when a document or a journal directly below was
	// last made, replaced or removed; what is appended to a journal does not count.
	ModTime(key string) (time.Time, error)
	// Below lists the names directly below a key that have others below them, in no order,
	// each with its ModTime. It is fast enough to look at all of many for what has changed.
	Below(key string) ([]Entry, error)
	// Clock tells the time by the storage's clock, which is another machine's where the
	// storage is shared. It writes to find out.
	Clock() (time.Time, error)
	// KeepReserve sets room aside, where a storage can be full, for durable writes that
	// find none. It is called from time to time, since such a write uses it up.
	KeepReserve() error
	// Stage makes an empty storage for what is to appear in this one all at once.
	Stage() (Stage, error)
	// Quarantine moves a damaged document, or a copy of a damaged journal, out of the
	// way and returns its new key.
	Quarantine(key string, version Version, copied bool) (string, error)
	// Lock waits for a lock that others hold for a short time. While it is held, only its
	// holder can write the document of its key.
	Lock(ctx context.Context, key string) (Locked, error)
	// Hold takes a lock for as long as some work takes; ok is false while another holds
	// it. It ends when it is unlocked, or when its holder is gone, however that ends: here
	// the process and all that have inherited the descriptor. An object store grants a
	// lease instead that its holder renews. A lease can end while its holder still works, so
	// whatever is written under a hold has a version or an incarnation that excludes late
	// writers.
	Hold(key string) (held Hold, ok bool, err error)
}

// Entry is a name that has others below it.
type Entry struct {
	Name     string
	Modified time.Time
}

// Stage is a storage of its own. Nothing in it is durable before it is published.
type Stage interface {
	Storage
	// Publish moves the documents and journals below a key, and blobs, durably to where the
	// stage was made; blobs that are there stay. Whatever ends it, all that is below the key
	// is then there, or nothing. It is ErrConflict if something is below the key already.
	Publish(ctx context.Context, key string, blobs []spec.Digest) error
	// Close removes what was not published.
	Close() error
}

// Hold is a lock that is held while some work is under way.
type Hold interface {
	// Fd is the descriptor that processes inherit to keep the lock.
	Fd() uintptr
	// Unlock releases the lock, also for those that have inherited it.
	Unlock()
}

// Documents reads and writes documents.
type Documents interface {
	// Read returns a document, or a journal, and its version. A line without an end may
	// be the journal's last: its append has not returned.
	Read(key string) ([]byte, Version, error)
	// Write replaces a document if its version is still the same, or creates it if
	// version is zero and there is none. It returns the new version. A journal can be
	// created with all its lines.
	Write(key string, data []byte, version Version, d Durability) (Version, error)
}

// Locked is a lock that is held. Its Write is for the document of the lock.
type Locked interface {
	Documents
	// Close releases the lock.
	Close() error
}

// CheckKey refuses what is not a key: it returns nil or an ErrKey.
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
