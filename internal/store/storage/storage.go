package storage

import (
	"context"
	"errors"
)

// ErrNotFound says that a file or a blob does not exist, and ErrKey that a digest is invalid.
var (
	ErrNotFound = errors.New("no such file")
	ErrKey      = errors.New("invalid digest")
)

// Files are files that are replaced as a whole.
type Files interface {
	// Read returns the content of a file.
	Read(ctx context.Context, key string) ([]byte, error)
	// Replace writes a file atomically and durably.
	Replace(ctx context.Context, key string, data []byte) error
	// Remove removes a file, if it exists.
	Remove(ctx context.Context, key string) error
	// List returns the names of the files in a directory, sorted. The list of a directory that does not exist is empty.
	List(ctx context.Context, key string) ([]string, error)
}

// maxFile is the size of the largest file that is read, in bytes.
const maxFile = 256 << 20
