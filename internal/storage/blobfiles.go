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

// blobPath is the file of a blob.
func (d *Directory) blobPath(digest spec.Digest) (string, error) {
	if !digest.Valid() {
		return "", fmt.Errorf("%w: a blob's name is 64 lower-case hex digits, not %.80q", ErrKey, digest)
	}
	return filepath.Join(d.root, filepath.FromSlash(BlobKey(digest))), nil
}

// PutBlob implements [Blobs]. A durable blob may take the room of the reserve.
func (d *Directory) PutBlob(digest spec.Digest, data []byte, durability Durability) (made *BlobInfo, err error) {
	path, err := d.blobPath(digest)
	if err != nil {
		return nil, err
	}
	there, err := d.holds(path, data)
	switch {
	case err != nil:
		return nil, err
	case there && durability == Durable: // another process may have written it a moment ago
		return nil, d.flushFiles([]string{path})
	case there:
		return nil, nil
	}
	if durability == UntilPowerLoss {
		return d.makeBlob(path, data, durability)
	}
	err = d.withReserve(func() error {
		made, err = d.makeBlob(path, data, durability)
		return err
	})
	return made, err
}

// makeBlob writes the file of a blob. A durable one is flushed before it gets its name, so
// that a flush that fails leaves no blob.
func (d *Directory) makeBlob(path string, data []byte, durability Durability) (*BlobInfo, error) {
	temp, info, err := d.writeTempOnce(path, data, durability)
	if err != nil {
		return nil, err
	}
	return blobInfo(info), d.installTemp(temp, path, durability)
}

func blobInfo(info fs.FileInfo) *BlobInfo {
	return &BlobInfo{Size: info.Size(), Used: info.ModTime(), file: info}
}

// holds reports whether a blob is stored with exactly this content. What is stored is
// marked as used, so that it does not look abandoned, even if it is about to be replaced.
// What was swept away meanwhile is not stored.
func (d *Directory) holds(path string, data []byte) (bool, error) {
	f, err := openFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // only read
	same, err := sameContent(f, data)
	if err != nil {
		return false, err
	}
	err = d.use(path)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return same && err == nil, err
}

func sameContent(f *os.File, data []byte) (bool, error) {
	info, err := f.Stat()
	if err != nil || info.Size() != int64(len(data)) {
		return false, err
	}
	buf, release := Buffer()
	defer release()
	for len(data) > 0 {
		n, err := io.ReadFull(f, buf[:min(len(buf), len(data))])
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if !bytes.Equal(buf[:n], data[:n]) {
			return false, nil
		}
		data = data[n:]
	}
	return true, nil
}

// blobFile is a blob that is written to a temporary file.
type blobFile struct {
	*Directory
	file *os.File
	size int64
}

// NewBlob implements [Blobs].
func (d *Directory) NewBlob() (BlobWriter, error) {
	f, err := d.temp()
	if err != nil {
		return nil, err
	}
	return &blobFile{Directory: d, file: f}, nil
}

// Write implements [BlobWriter].
func (b *blobFile) Write(p []byte) (int, error) {
	n, err := b.file.Write(p)
	b.size += int64(n)
	return n, err
}

// Commit implements [BlobWriter].
func (b *blobFile) Commit(ctx context.Context, digest spec.Digest) (*BlobInfo, error) {
	if err := b.file.Close(); err != nil {
		return nil, err
	}
	return b.installBlob(ctx, b.file.Name(), digest, b.size)
}

// Close implements [BlobWriter]. The file is gone already if it was installed.
func (b *blobFile) Close() error {
	_ = b.file.Close()
	if err := os.Remove(b.file.Name()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// installBlob makes a file the blob that it is, unless that is stored already, undamaged.
// made is the blob that it has made; nil: it was there.
func (d *Directory) installBlob(ctx context.Context, temp string, digest spec.Digest, size int64) (made *BlobInfo, err error) {
	path, err := d.blobPath(digest)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && info.Size() == size {
		if found, err := hashFile(ctx, path); err == nil && found == digest {
			if err := d.use(path); !errors.Is(err, ErrNotFound) {
				return nil, err
			}
		}
	}
	info, err := os.Lstat(temp)
	if err != nil {
		return nil, err
	}
	return blobInfo(info), d.install(temp, path, UntilPowerLoss)
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

// fewFiles is up to how many files are flushed one by one, side by side: that
// is faster than to flush the whole file system, and waits for nobody else's
// data.
const fewFiles = 12

// FlushBlobs implements [Blobs].
func (d *Directory) FlushBlobs(digests []spec.Digest) error {
	paths := make([]string, len(digests))
	for i, digest := range digests {
		var err error
		if paths[i], err = d.blobPath(digest); err != nil {
			return err
		}
	}
	return d.flushFiles(paths)
}

// flushFiles makes files outlive a power loss that were installed until then.
func (d *Directory) flushFiles(files []string) error {
	if d.unflushed {
		return nil
	}
	if len(files) > fewFiles {
		return flushFileSystem(d.root, files)
	}
	paths := slices.Clone(files)
	for _, path := range files {
		paths = append(paths, filepath.Dir(path))
	}
	slices.Sort(paths)
	var all errgroup.Group
	for _, path := range slices.Compact(paths) {
		all.Go(func() error { return syncDir(path) }) // the same for a file
	}
	return all.Wait()
}

// OpenBlob implements [Blobs]. What it returns is a file.
func (d *Directory) OpenBlob(digest spec.Digest) (io.ReadCloser, error) {
	path, err := d.blobPath(digest)
	if err != nil {
		return nil, err
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
func (d *Directory) StatBlob(digest spec.Digest) (BlobInfo, error) {
	path, err := d.blobPath(digest)
	if err != nil {
		return BlobInfo{}, err
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return BlobInfo{}, ErrNotFound
	}
	if err != nil {
		return BlobInfo{}, err
	}
	return *blobInfo(info), nil
}

// UseBlob implements [Blobs]: the time of a blob's file is that of its last use.
func (d *Directory) UseBlob(digest spec.Digest) error {
	path, err := d.blobPath(digest)
	if err != nil {
		return err
	}
	return d.use(path)
}

func (d *Directory) use(path string) error {
	err := d.withSweepLock(unix.LOCK_SH, func() error {
		now := d.now()
		return os.Chtimes(path, now, now)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotFound
	}
	return err
}

// ListBlobs implements [Blobs].
func (d *Directory) ListBlobs(ctx context.Context, blob func(digest spec.Digest), stray func(key string)) error {
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
			stray(blobDir + "/" + dir.Name())
			continue
		}
		files, err := os.ReadDir(filepath.Join(root, dir.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, f := range files {
			digest := spec.Digest(dir.Name() + f.Name())
			if len(dir.Name()) != digestPrefix || !digest.Valid() || !f.Type().IsRegular() {
				stray(blobDir + "/" + dir.Name() + "/" + f.Name())
				continue
			}
			blob(digest)
		}
	}
	return nil
}

// SweepBlobs implements [Blobs] by a lock of the file system.
func (d *Directory) SweepBlobs(sweep func(remove func(digest spec.Digest) error) error) error {
	return d.withSweepLock(unix.LOCK_EX, func() error {
		return sweep(func(digest spec.Digest) error {
			path, err := d.blobPath(digest)
			if err == nil {
				err = os.Remove(path)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		})
	})
}

// QuarantineBlob implements [Blobs]. Another process may have repaired the blob in the
// meantime; so what was moved is looked at again, and an undamaged blob is put back.
func (d *Directory) QuarantineBlob(ctx context.Context, digest spec.Digest) (string, error) {
	path, err := d.blobPath(digest)
	if err != nil {
		return "", err
	}
	to := d.quarantined(path)
	if err := d.install(path, to, UntilPowerLoss); err != nil {
		return "", err
	}
	if found, err := hashFile(ctx, to); err == nil && found == digest {
		if err := os.Rename(to, path); err != nil {
			return "", fmt.Errorf("restore blob %s, which is intact: %w", digest, err)
		}
		return "", nil
	}
	return d.Rel(to), nil
}
