package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/maestro-hive/maestro/internal/spec"
)

// stage is a directory among the temporary files of another. What is written there is not
// flushed before it is published.
type stage struct {
	*Directory
	into *Directory
}

// Stage implements [Storage]. What a process that dies leaves is a temporary file.
func (d *Directory) Stage() (Stage, error) {
	temp := filepath.Join(d.root, tempDir)
	if err := d.makeDir(temp, UntilPowerLoss); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(temp, "stage-*")
	if err != nil {
		return nil, err
	}
	return &stage{&Directory{root: dir, now: d.now, unflushed: true}, d}, nil
}

// Publish implements [Stage] by renaming: each blob, and then the directory of the documents.
func (s *stage) Publish(ctx context.Context, key string, blobs []spec.Digest) error {
	from, err := s.path(key)
	if err != nil {
		return err
	}
	var files []string
	if err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			files = append(files, path)
		}
		return err
	}); err != nil {
		return err
	}
	for _, digest := range blobs {
		path, err := s.publishBlob(ctx, digest)
		if err != nil {
			return err
		}
		files = append(files, path)
	}
	if err := s.into.flushFiles(files); err != nil {
		return fmt.Errorf("flush the store: %w", err)
	}
	to := filepath.Join(s.into.root, filepath.FromSlash(key))
	if err := s.into.makeDir(filepath.Dir(to), Durable); err != nil {
		return err
	}
	_ = os.Remove(to) // an empty directory is nothing
	if err := os.Rename(from, to); errors.Is(err, fs.ErrExist) {
		return ErrConflict
	} else if err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

// publishBlob moves a blob, unless it is there already, and returns its file.
func (s *stage) publishBlob(ctx context.Context, digest spec.Digest) (path string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	info, err := s.StatBlob(digest)
	if err != nil {
		return "", err
	}
	from, err := s.blobPath(digest)
	if err != nil {
		return "", err
	}
	if _, err := s.into.installBlob(ctx, from, digest, info.Size); err != nil {
		return "", err
	}
	return s.into.blobPath(digest)
}

// Close implements [Stage].
func (s *stage) Close() error { return os.RemoveAll(s.root) }
