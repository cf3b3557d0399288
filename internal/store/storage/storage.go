// Package storage has the files of a store beside its database: the mirror's, which are replaced as a whole, and blobs, which
// are immutable. Several processes may use one [Directory] at once.
//
// A key is a relative path of names that are separated by slashes. Callers compare the errors
// below with errors.Is. Any other error means that the storage cannot be used at the moment.
package storage

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNotFound says that a file or a blob does not exist, and ErrKey that a key or a digest is invalid.
var (
	ErrNotFound = errors.New("no such file")
	ErrKey      = errors.New("invalid key")
)

// Size limits, in bytes.
const (
	maxFile = 256 << 20
	maxKey  = 1024
	maxName = 255
)

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
