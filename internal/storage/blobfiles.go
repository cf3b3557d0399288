package storage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/spec"
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
	f, err := d.OpenBlob(digest)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // only read
	if same, err := sameContent(f, content); !same || err != nil {
		return false, err
	}
	err = d.UseBlob(digest)
	if errors.Is(err, ErrNotFound) { // a sweep has removed it
		return false, nil
	}
	return err == nil, err
}

// sameContent reports whether r yields exactly content.
func sameContent(r io.Reader, content []byte) (bool, error) {
	buf, release := Buffer()
	defer release()
	for {
		n, err := io.ReadFull(r, buf[:min(len(buf), len(content)+1)])
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
			return false, err
		}
		if n > len(content) || !bytes.Equal(buf[:n], content[:n]) {
			return false, nil
		}
		if content = content[n:]; err != nil {
			return len(content) == 0, nil
		}
	}
}

// hashFile returns the digest of a file's content.
func hashFile(ctx context.Context, path string) (spec.Digest, error) {
	f, err := openFile(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	h := sha256.New()
	if _, err := Copy(ctx, h, f); err != nil {
		return "", err
	}
	return spec.Digest(hex.EncodeToString(h.Sum(nil))), nil
}

// fewFiles is up to how many files are flushed concurrently, one by one. For so few files, this
// is faster than to flush the whole file system, and it does not wait for data of other programs.
const fewFiles = 12

// flushBlobs makes blobs with valid digests survive a power loss, also those that other processes have put.
func (d *Directory) flushBlobs(digests []spec.Digest) error {
	if len(digests) > fewFiles {
		return FlushFileSystem(d.root, d.blobFiles(digests))
	}
	paths := d.blobFiles(digests)
	for _, path := range slices.Clone(paths) {
		paths = append(paths, filepath.Dir(path))
	}
	slices.Sort(paths)
	var all errgroup.Group
	for _, path := range slices.Compact(paths) {
		all.Go(func() error { return syncDir(path) }) // syncDir works for files, too
	}
	return all.Wait()
}

func (d *Directory) blobFiles(digests []spec.Digest) []string {
	paths := make([]string, len(digests))
	for i, digest := range digests {
		paths[i] = d.blobFile(digest)
	}
	return paths
}

// OpenBlob implements [Blobs]. The result is an [*os.File].
func (d *Directory) OpenBlob(digest spec.Digest) (io.ReadCloser, error) {
	path, err := d.blobPath(digest)
	if err != nil {
		return nil, err
	}
	return openBlobFile(path)
}

func openBlobFile(path string) (io.ReadCloser, error) {
	if err := unix.Access(path, unix.F_OK); errors.Is(err, fs.ErrNotExist) { // three times as fast as opening it
		return nil, ErrNotFound
	}
	f, err := openFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return f, nil
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

// ListBlobs implements [Blobs].
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

// SweepBlobs implements [Blobs] with a file lock.
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
func (d *Directory) MoveDamaged(ctx context.Context, digest spec.Digest) (string, error) {
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
	if found, err := hashFile(ctx, to); err == nil && found == digest {
		if err := os.Rename(to, path); err != nil {
			return "", fmt.Errorf("restore blob %s, which is intact: %w", digest, err)
		}
		return "", nil
	}
	return key, nil
}
