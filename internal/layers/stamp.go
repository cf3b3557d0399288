package layers

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/spec"
)

// errChanged: a layer is not as it was made.
var errChanged = errors.New("its files were changed since it was made")

// verifiedFor is for how long a layer is not looked at again: a use of a tree often follows another one.
const verifiedFor = time.Second

// unchanged returns errChanged if a layer is not as it was made. It reads no content: a change of a file shows in its
// times, of which nobody can set that of the last change.
func (l *Layers) unchanged(name string, at layer) error {
	l.verifying.Lock()
	before := l.verified[at.ID]
	l.verifying.Unlock()
	now := l.o.Now()
	if passed := now.Sub(before); passed >= 0 && passed < verifiedFor {
		return nil
	}
	stamp, err := stampOf(filepath.Join(l.path(name), treeDir))
	if err != nil {
		return err
	}
	if stamp != at.Stamp {
		return errChanged
	}
	l.verifying.Lock()
	defer l.verifying.Unlock()
	if len(l.verified) > maxVerified {
		clear(l.verified)
	}
	l.verified[at.ID] = now
	return nil
}

// maxVerified bounds how many layers are remembered as verified.
const maxVerified = 1000

// stampOf identifies what is below a directory by the names, numbers, modes, sizes and times of all files.
func stampOf(dir string) (string, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("read the layer %s: %w", dir, err)
	}
	sum := sha256.New()
	if err := stampBelow(fd, dir, sum); err != nil {
		return "", fmt.Errorf("read the layer %s: %w", dir, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// stampBelow adds what is below an open directory, and closes it.
func stampBelow(fd int, path string, sum io.Writer) error {
	dir := os.NewFile(uintptr(fd), path)
	defer dir.Close() //nolint:errcheck // only read
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		var is unix.Stat_t
		if err := unix.Fstatat(fd, name, &is, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		record := append([]byte(name), 0)
		for _, n := range []uint64{is.Ino, uint64(is.Mode), uint64(is.Uid), uint64(is.Size), uint64(is.Rdev), uint64(is.Mtim.Nano()), uint64(is.Ctim.Nano())} { //nolint:gosec,unconvert // only compared
			record = binary.LittleEndian.AppendUint64(record, n)
		}
		if _, err := sum.Write(record); err != nil {
			return err
		}
		if is.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		sub, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		if err := stampBelow(sub, name, sum); err != nil {
			return err
		}
		if _, err := sum.Write([]byte{0}); err != nil { // its end
			return err
		}
	}
	return nil
}

// Damage is a layer that was not as it was made. It was removed; it is made again when it is needed.
type Damage struct {
	// Path is below the root.
	Path string
	Err  error
}

// Verify compares the layers below a root with the trees, by content, and removes those that differ.
func Verify(ctx context.Context, root string, files Files, now func() time.Time) (found []Damage, err error) {
	l, err := openRoot(Options{Root: root, Files: files, Now: now})
	if err != nil {
		return nil, err
	}
	all, err := l.list()
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for name, e := range all {
		if !e.usable { // it is not used any more
			continue
		}
		path, wrong, err := l.compare(ctx, name, e)
		if err != nil {
			return found, err
		}
		if wrong == nil {
			continue
		}
		found = append(found, Damage{filepath.Join(name, treeDir, path), wrong})
		if err := l.removeIf(name, func() bool { return true }); err != nil {
			return found, err
		}
	}
	return found, nil
}

// compare returns the path of a file in a layer that is not that of its tree, and why.
func (l *Layers) compare(ctx context.Context, name string, e *entry) (path string, wrong, err error) {
	lock, err := l.open(name, shared)
	if err != nil || lock == nil {
		return "", nil, err
	}
	defer unlock(lock) //nolint:errcheck // only locked
	top := filepath.Join(l.path(name), treeDir)
	tree, err := l.o.Files.Tree(ctx, e.Manifest)
	if err != nil {
		return "", nil, ctx.Err() // a tree that is not in the store any more has no layer that is used
	}
	err = filepath.WalkDir(top, func(p string, f os.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil || !f.Type().IsRegular() {
			return errors.Join(err, ctx.Err())
		}
		if path, err = filepath.Rel(top, p); err != nil {
			return err
		}
		want, ok, err := tree.Get(ctx, path)
		if err != nil {
			return err
		}
		has, err := digestOf(p)
		if err == nil && (!ok || has != want.SHA256) {
			wrong = fmt.Errorf("its content is not that of tree %s", e.Manifest.Short())
			return filepath.SkipAll
		}
		return err
	})
	if wrong != nil || err != nil {
		return path, wrong, err
	}
	stamp, err := stampOf(top)
	if err == nil && stamp != e.Stamp { // a file is missing, or is another one with the same content
		return "", errChanged, nil
	}
	return "", nil, err
}

// digestOf returns the SHA-256 of a file.
func digestOf(path string) (spec.Digest, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return spec.Digest(hex.EncodeToString(sum.Sum(nil))), nil
}
