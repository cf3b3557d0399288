// Package storage has the files of a store beside its database: the mirror's, which are replaced as a whole, and blobs, which
// are immutable. Several processes may use one [Directory] at once.
//
// A key is a relative path of names that are separated by slashes; callers check what they make it of. They compare the errors
// below with errors.Is. Any other error means that the storage cannot be used at the moment.
package storage

import (
	"errors"
)

// ErrNotFound says that a file or a blob does not exist, and ErrKey that a digest is invalid.
var (
	ErrNotFound = errors.New("no such file")
	ErrKey      = errors.New("invalid digest")
)

// maxFile is the size of the largest file that is read, in bytes.
const maxFile = 256 << 20
