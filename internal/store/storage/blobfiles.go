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
	"time"

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
func (d *Directory) PutBlob(ctx context.Context, digest spec.Digest, data []byte) error {
	path, err := d.blobPath(digest)
	if err != nil {
		return err
	}
	there, err := d.holds(ctx, digest, data)
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
func (d *Directory) holds(ctx context.Context, digest spec.Digest, content []byte) (bool, error) {
	stored, err := os.ReadFile(d.blobFile(digest))
	if err != nil || !bytes.Equal(stored, content) {
		return false, IgnoreMissing(err)
	}
	err = d.UseBlob(ctx, digest)
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
func (d *Directory) OpenBlob(_ context.Context, digest spec.Digest) (*os.File, error) {
	path, err := d.blobPath(digest)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	return f, err
}

// StatBlobs implements [Blobs].
func (d *Directory) StatBlobs(ctx context.Context, digests ...spec.Digest) (map[spec.Digest]BlobInfo, error) {
	found := map[spec.Digest]BlobInfo{}
	for _, digest := range digests {
		path, err := d.blobPath(digest)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return nil, err
		}
		info, err := os.Lstat(path)
		if err == nil {
			found[digest] = BlobInfo{Size: info.Size(), Used: info.ModTime()}
		} else if IgnoreMissing(err) != nil {
			return nil, err
		}
	}
	return found, nil
}

// Fetch implements [Blobs]: every blob is on this host.
func (d *Directory) Fetch(context.Context, []spec.Digest) error { return nil }

// UseBlob implements [Blobs]. The modification time of a blob's file is the time of its last use.
func (d *Directory) UseBlob(_ context.Context, digest spec.Digest) error {
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

// ListBlobs implements [Content].
func (d *Directory) ListBlobs(ctx context.Context, blob func(spec.Digest, BlobInfo), stray func(key, what string)) error {
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
			info, err := f.Info()
			if IgnoreMissing(err) != nil {
				return err
			}
			if err == nil {
				blob(digest, BlobInfo{Size: info.Size(), Used: info.ModTime()})
			}
		}
	}
	return nil
}

// notBlob is the message for other files among the blobs.
const notBlob = "not a blob; remove it, or move it elsewhere"

// SweepBlobs implements [Content]. While it runs, no blob can be marked as used.
func (d *Directory) SweepBlobs(ctx context.Context, digests []spec.Digest, since time.Time, whole bool) (swept Swept,
	used []spec.Digest, err error,
) {
	err = d.withSweepLock(unix.LOCK_EX, func() error {
		found, err := d.StatBlobs(ctx, digests...)
		if err != nil {
			return err
		}
		for digest, info := range found {
			if !info.Used.Before(since) {
				used = append(used, digest)
				delete(found, digest)
			}
		}
		if whole && len(used) > 0 {
			return nil
		}
		for _, digest := range digests { // in their order
			info, ok := found[digest]
			if !ok {
				continue
			}
			if err := IgnoreMissing(os.Remove(d.blobFile(digest))); err != nil {
				return fmt.Errorf("remove blob %s: %w", digest.Short(), err)
			}
			swept.Blobs++
			swept.Bytes += info.Size
		}
		return nil
	})
	return swept, used, err
}

// Now implements [Content].
func (d *Directory) Now(context.Context) (time.Time, error) { return d.now(), nil }

// MoveDamaged implements [Blobs]. Another process may have repaired the blob in the meantime.
// So the moved file is verified again, and moved back if it is undamaged.
func (d *Directory) MoveDamaged(_ context.Context, digest spec.Digest) (string, error) {
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
