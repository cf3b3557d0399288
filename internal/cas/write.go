package cas

import (
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/maestro-hive/maestro/internal/storage"
)

// syncFile makes a file that is there already outlive a power loss.
func syncFile(path string) error {
	if err := storage.SyncDir(path); err != nil { // opening and flushing is the same for both
		return err
	}
	return storage.SyncDir(filepath.Dir(path))
}

// fewFiles is up to how many files are flushed one by one, side by side: that
// is faster than to flush the whole file system, and waits for nobody else's
// data.
const fewFiles = 12

// FlushFiles makes files outlive a power loss that were installed until then.
func (s *Store) FlushFiles(files []string) error {
	if len(files) > fewFiles {
		return flushFileSystem(s.path("blobs"), files)
	}
	paths := slices.Clone(files)
	for _, path := range files {
		paths = append(paths, filepath.Dir(path))
	}
	slices.Sort(paths)
	var all errgroup.Group
	for _, path := range slices.Compact(paths) {
		all.Go(func() error { return storage.SyncDir(path) }) // the same for both
	}
	return all.Wait()
}
