package backup

import (
	"archive/tar"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/maestro-hive/maestro/internal/store/storage"
)

// scratchDir has what a backup or a restore has not completed.
const scratchDir = "incomplete"

const (
	dirMode  = 0o700
	fileMode = 0o600
)

// openTarget opens what a store with an id is backed up to.
func openTarget(to, id string, at time.Time) (target, error) {
	if isArchive(to) {
		return newArchive(to)
	}
	if strings.HasSuffix(to, ".tar") || strings.HasSuffix(to, ".gz") || strings.HasSuffix(to, ".tgz") {
		return nil, errors.New("an archive has a name that ends in .tar.zst")
	}
	if err := os.MkdirAll(to, dirMode); err != nil {
		return nil, err
	}
	if err := checkTarget(to, id); err != nil {
		return nil, err
	}
	return newDirectoryTarget(to, at)
}

func isArchive(name string) bool { return strings.HasSuffix(name, ".tar.zst") }

// directoryTarget adds files to a directory, each by a rename.
type directoryTarget struct {
	dir  string
	root *os.Root
	// at is the time of the backup.
	at time.Time
}

func newDirectoryTarget(dir string, at time.Time) (*directoryTarget, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	d := &directoryTarget{dir: dir, root: root, at: at}
	if err := errors.Join(root.RemoveAll(scratchDir), root.Mkdir(scratchDir, dirMode)); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return d, nil
}

// has marks a file that is there as still in use.
func (d *directoryTarget) has(name string, size int64) bool {
	info, err := d.root.Lstat(name)
	return err == nil && info.Mode().IsRegular() && info.Size() == size && d.root.Chtimes(name, d.at, d.at) == nil
}

func (d *directoryTarget) add(name string, _ int64, write func(io.Writer) error) error {
	temp := path.Join(scratchDir, rand.Text())
	f, err := d.root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Close())
	if err == nil {
		if err = d.root.Rename(temp, name); errors.Is(err, fs.ErrNotExist) {
			err = errors.Join(d.root.MkdirAll(path.Dir(name), dirMode), d.root.Rename(temp, name))
		}
	}
	if err != nil {
		_ = d.root.Remove(temp) // the next backup removes it
		return err
	}
	return nil
}

func (d *directoryTarget) flush() error {
	return storage.FlushFileSystem(d.dir)
}

func (d *directoryTarget) scratch() string { return filepath.Join(d.dir, scratchDir, "state.db") }

func (d *directoryTarget) close(bool) error {
	return errors.Join(d.root.RemoveAll(scratchDir), d.root.Close())
}

// archive is a tar file that gets its name when it is complete.
type archive struct {
	path    string
	file    *os.File
	packed  *zstd.Encoder
	tar     *tar.Writer
	workDir string
}

func newArchive(to string) (a *archive, err error) {
	if _, err := os.Lstat(to); err == nil {
		return nil, errors.New("the file exists already; choose another name")
	}
	a = &archive{path: to, workDir: to + "." + scratchDir} // a repetition removes what an earlier one has left
	if err := errors.Join(os.RemoveAll(a.workDir), os.Mkdir(a.workDir, dirMode)); err != nil {
		return nil, err
	}
	if a.file, err = os.OpenFile(filepath.Join(a.workDir, "archive"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode); err != nil {
		return nil, errors.Join(err, os.RemoveAll(a.workDir))
	}
	if a.packed, err = zstd.NewWriter(a.file); err != nil {
		return nil, errors.Join(err, a.file.Close(), os.RemoveAll(a.workDir))
	}
	a.tar = tar.NewWriter(a.packed)
	return a, nil
}

func (a *archive) has(string, int64) bool { return false }

func (a *archive) add(name string, size int64, write func(io.Writer) error) error {
	if err := a.tar.WriteHeader(&tar.Header{Name: name, Mode: fileMode, Size: size, Format: tar.FormatPAX}); err != nil {
		return err
	}
	return write(a.tar)
}

func (a *archive) flush() error { return nil } // close does it

func (a *archive) scratch() string { return filepath.Join(a.workDir, "state.db") }

func (a *archive) close(whole bool) (err error) {
	defer func() { err = errors.Join(err, os.RemoveAll(a.workDir)) }()
	if !whole {
		return a.file.Close()
	}
	if err := errors.Join(a.tar.Close(), a.packed.Close(), a.file.Sync(), a.file.Close()); err != nil {
		return err
	}
	if err := os.Link(a.file.Name(), a.path); err != nil { // a rename would replace a file that was made meanwhile
		return fmt.Errorf("name the archive: %w", err)
	}
	return storage.Sync(filepath.Dir(a.path))
}
