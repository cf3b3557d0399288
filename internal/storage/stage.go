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

// stage is a directory among the temporary files of another Directory. It is flushed when it is
// published, not before.
type stage struct {
	*Directory
	into *Directory
}

// Stage implements [Storage]. If the process dies, the stage remains as a temporary file.
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

// Publish implements [Stage] by renaming: first each blob, then the directory of the documents.
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
	if err := s.publishBlobs(ctx, blobs); err != nil {
		return err
	}
	if err := s.into.flushFiles(files); err != nil {
		return fmt.Errorf("flush the store: %w", err)
	}
	to := filepath.Join(s.into.root, filepath.FromSlash(key))
	if err := s.into.makeDir(filepath.Dir(to), Durable); err != nil {
		return err
	}
	_ = os.Remove(to) // removes only an empty directory
	if err := os.Rename(from, to); errors.Is(err, fs.ErrExist) {
		return ErrConflict
	} else if err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

// publishBlobs moves blobs, which replace those that exist in the target.
func (s *stage) publishBlobs(ctx context.Context, digests []spec.Digest) (err error) {
	to, err := s.into.newBatch()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	for _, digest := range digests {
		from, err := s.blobPath(digest)
		if err == nil {
			err = to.move(from, digest)
		}
		if err != nil {
			return err
		}
	}
	return to.Commit(ctx)
}

// Close implements [Stage].
func (s *stage) Close() error { return os.RemoveAll(s.root) }
