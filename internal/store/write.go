package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/maestro-hive/maestro/internal/failpoint"
)

// durability says what a write outlives.
type durability bool

const (
	// untilPowerLoss: the file is whole after any crash of processes.
	untilPowerLoss durability = false
	// durable: the file is whole after a power loss, too.
	durable durability = true
)

// write replaces the file at path by data, whole or not at all, making its
// directory if need be.
func (s *Store) write(path string, data []byte, d durability) error {
	temp, err := s.writeTemp(path, data, d)
	if err != nil {
		return err
	}
	return s.installTemp(temp, path, d)
}

// installTemp installs a temporary file, or removes it.
func (s *Store) installTemp(temp *os.File, path string, d durability) error {
	err := s.install(temp.Name(), path, d)
	if err != nil {
		_ = os.Remove(temp.Name())
	}
	return err
}

// writeTemp writes data to a temporary file, which it closes, to be installed at path. On
// a full disk it uses the reserve.
func (s *Store) writeTemp(path string, data []byte, d durability) (f *os.File, err error) {
	err = s.withReserve(func() error {
		f, err = s.writeTempOnce(path, data, d)
		return err
	})
	return f, err
}

func (s *Store) writeTempOnce(path string, data []byte, d durability) (*os.File, error) {
	f, err := s.temp()
	if err != nil {
		return nil, err
	}
	failpoint.Torn(path, f, data)
	if err := writeAll(f, data, d == durable); err != nil {
		_ = os.Remove(f.Name())
		return nil, err
	}
	return f, nil
}

// temp makes a temporary file in the file system of the store.
func (s *Store) temp() (*os.File, error) {
	f, err := os.CreateTemp(s.path("tmp"), "put-*")
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.makeDir(s.path("tmp"), untilPowerLoss); err != nil {
			return nil, err
		}
		f, err = os.CreateTemp(s.path("tmp"), "put-*")
	}
	return f, err
}

// install renames a temporary file to path. A directory that it has to make is
// durable in any case: whoever settles the file looks no further up than that.
func (s *Store) install(temp, path string, d durability) error {
	err := os.Rename(temp, path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.makeDir(filepath.Dir(path), durable); err != nil {
			return err
		}
		err = os.Rename(temp, path)
	}
	if err != nil || d != durable {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// makeDir makes a directory and its parents below the store.
func (s *Store) makeDir(path string, d durability) error {
	err := os.Mkdir(path, dirMode)
	if errors.Is(err, fs.ErrNotExist) && path != s.dir {
		if err := s.makeDir(filepath.Dir(path), d); err != nil {
			return err
		}
		err = os.Mkdir(path, dirMode)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err != nil || d != durable {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// writeAll writes data and closes f, which it has flushed to the disk if sync.
func writeAll(f *os.File, data []byte, sync bool) (err error) {
	defer closing(f, &err)
	if _, err := f.Write(data); err != nil {
		return err
	}
	if sync {
		return f.Sync()
	}
	return nil
}

// syncDir makes the names in a directory outlive a power loss.
func syncDir(path string) (err error) {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer closing(d, &err)
	return d.Sync()
}

// syncFile makes a file that is there already outlive a power loss.
func syncFile(path string) error {
	if err := syncDir(path); err != nil { // opening and flushing is the same for both
		return err
	}
	return syncDir(filepath.Dir(path))
}

// fewFiles is up to how many files are flushed one by one, side by side: that
// is faster than to flush the whole file system, and waits for nobody else's
// data.
const fewFiles = 12

// flushFiles makes files outlive a power loss that were installed until then.
func (s *Store) flushFiles(files []string) error {
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
		all.Go(func() error { return syncDir(path) }) // the same for both
	}
	return all.Wait()
}
