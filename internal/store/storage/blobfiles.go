package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// blobPath returns the path of a blob's file.
func (d *Directory) blobPath(digest spec.Digest) (string, error) {
	if !digest.Valid() {
		return "", wrongDigest(digest)
	}
	return d.blobFile(digest), nil
}

func wrongDigest(digest spec.Digest) error {
	return fmt.Errorf("%w: a blob's name is 64 lower-case hex digits, not %.80q", ErrKey, digest)
}

// blobFile returns the path of the file of a blob with a valid digest.
func (d *Directory) blobFile(digest spec.Digest) string { return d.root + "/" + BlobKey(digest) }

// PutBlob implements [Blobs]. It may use the reserved disk space.
func (d *Directory) PutBlob(digest spec.Digest, data []byte) error {
	path, err := d.blobPath(digest)
	if err != nil {
		return err
	}
	there, err := d.holds(digest, data)
	switch {
	case err != nil:
		return err
	case there: // another process may have written it, and not flushed it yet
		return d.flushBlobs([]spec.Digest{digest})
	}
	return d.withReserve(func() error { return d.writeFile(path, data) })
}

// holds reports whether a blob is stored with exactly this content. If it is, it is marked as used,
// so that no sweep removes it.
func (d *Directory) holds(digest spec.Digest, content []byte) (bool, error) {
	stored, err := os.ReadFile(d.blobFile(digest))
	if err != nil || !bytes.Equal(stored, content) {
		return false, IgnoreMissing(err)
	}
	err = d.UseBlob(digest)
	if errors.Is(err, ErrNotFound) { // a sweep has removed it
		return false, nil
	}
	return err == nil, err
}

// hashFile returns the digest of a file's content.
func hashFile(path string) (spec.Digest, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	_, digest, err := Copy(context.Background(), io.Discard, f)
	return digest, err
}

// fewFiles is up to how many files are flushed concurrently, one by one. For so few files, this
// is faster than to flush the whole file system, and it does not wait for data of other programs.
const fewFiles = 12

// flushBlobs makes blobs with valid digests survive a power loss, also those that other processes have put.
func (d *Directory) flushBlobs(digests []spec.Digest) error {
	var paths []string
	for _, digest := range digests {
		paths = append(paths, d.blobFile(digest), filepath.Dir(d.blobFile(digest)))
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	if len(digests) > fewFiles {
		return syncMany(d.root, paths)
	}
	var all errgroup.Group
	for _, path := range paths {
		all.Go(func() error { return Sync(path) })
	}
	return all.Wait()
}

// OpenBlob implements [Blobs].
func (d *Directory) OpenBlob(digest spec.Digest) (*os.File, error) {
	path, err := d.blobPath(digest)
	if err != nil {
		return nil, err
	}
	return openBlobFile(path)
}

func openBlobFile(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	return f, err
}

// StatBlob implements [Blobs].
func (d *Directory) StatBlob(digest spec.Digest) (info BlobInfo, err error) {
	path, err := d.blobPath(digest)
	if err != nil {
		return info, err
	}
	return statBlobFile(path)
}

func statBlobFile(path string) (info BlobInfo, err error) {
	file, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return info, ErrNotFound
	}
	if err != nil {
		return info, err
	}
	return BlobInfo{file.Size(), file.ModTime()}, nil
}

// UseBlob implements [Blobs]. The modification time of a blob's file is the time of its last use.
func (d *Directory) UseBlob(digest spec.Digest) error {
	path, err := d.blobPath(digest)
	if err != nil {
		return err
	}
	return d.withSweepLock(unix.LOCK_SH, func() error {
		now := d.now()
		if err := os.Chtimes(path, now, now); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return ErrNotFound
	})
}

// ListBlobs calls blob for each blob, at least once. It calls stray with the key of anything
// else that is stored among the blobs, and with what is wrong with it.
func (d *Directory) ListBlobs(ctx context.Context, blob func(digest spec.Digest), stray func(key, what string)) error {
	root := filepath.Join(d.root, filepath.FromSlash(blobDir))
	dirs, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, dir := range dirs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !dir.IsDir() {
			stray(blobDir+"/"+dir.Name(), notBlob)
			continue
		}
		files, err := os.ReadDir(filepath.Join(root, dir.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, f := range files {
			digest := spec.Digest(dir.Name() + f.Name())
			if len(dir.Name()) != digestPrefix || !digest.Valid() || !f.Type().IsRegular() {
				stray(blobDir+"/"+dir.Name()+"/"+f.Name(), notBlob)
				continue
			}
			blob(digest)
		}
	}
	return nil
}

// notBlob is the message for other files among the blobs.
const notBlob = "not a blob; remove it, or move it elsewhere"

// SweepBlobs runs sweep while no blob can be marked as used. When it returns, the blobs for
// which remove was called are removed.
func (d *Directory) SweepBlobs(sweep func(remove func(digest spec.Digest) error) error) error {
	return d.withSweepLock(unix.LOCK_EX, func() error {
		return sweep(func(digest spec.Digest) error {
			path, err := d.blobPath(digest)
			if err == nil {
				err = os.Remove(path)
			}
			return IgnoreMissing(err)
		})
	})
}

// MoveDamaged implements [Blobs]. Another process may have repaired the blob in the meantime.
// So the moved file is verified again, and moved back if it is undamaged.
func (d *Directory) MoveDamaged(digest spec.Digest) (string, error) {
	path, err := d.blobPath(digest)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return "", ErrNotFound
	}
	key := d.damagedPath(BlobKey(digest))
	to := filepath.Join(d.root, filepath.FromSlash(key))
	if err := d.install(path, to); err != nil {
		return "", err
	}
	if found, err := hashFile(to); err == nil && found == digest {
		if err := os.Rename(to, path); err != nil {
			return "", fmt.Errorf("restore blob %s, which is intact: %w", digest, err)
		}
		return "", nil
	}
	return key, nil
}
