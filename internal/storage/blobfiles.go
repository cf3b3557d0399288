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
	"time"

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

// PutBlob implements [Blobs]. A durable write may use the reserved disk space.
func (d *Directory) PutBlob(digest spec.Digest, data []byte, durability Durability) (made bool, err error) {
	path, err := d.blobPath(digest)
	if err != nil {
		return false, err
	}
	r := d.reader(false)
	defer r.Close() //nolint:errcheck // only read
	_, there, err := r.holds(r.OpenBlob, digest, data)
	switch {
	case err != nil:
		return false, err
	case there && durability == Durable: // another process may have written it without a flush
		return false, d.FlushBlobs([]spec.Digest{digest})
	case there:
		return false, nil
	case durability == UntilPowerLoss:
		return true, d.makeBlob(path, data, durability)
	}
	return true, d.withReserve(func() error { return d.makeBlob(path, data, durability) })
}

// makeBlob writes the file of a blob. A durable one is flushed before it is renamed, so that a
// failed flush leaves no blob.
func (d *Directory) makeBlob(path string, data []byte, durability Durability) error {
	temp, err := d.writeTempOnce(path, data, durability)
	if err != nil {
		return err
	}
	return d.installTemp(temp, path, durability)
}

// holds reports whether open finds a blob, and whether it has exactly this content. If it has,
// the blob is marked as used, so that no sweep removes it. A blob that a sweep removed during the
// call counts as not found.
func (r *blobReader) holds(open func(spec.Digest) (io.ReadCloser, error), digest spec.Digest, content []byte) (found, same bool, err error) {
	f, err := open(digest)
	if errors.Is(err, ErrNotFound) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	defer f.Close() //nolint:errcheck // only read
	if same, err = sameContent(f, content); err != nil {
		return true, false, err
	}
	if !same { // a damaged packed copy would be read instead of the new file
		if _, err := r.quarantinePacked(digest); !errors.Is(err, ErrNotFound) {
			return true, false, err
		}
		return true, false, nil
	}
	if _, isFile := f.(*os.File); !isFile && r.recentlyUsed(digest) {
		return true, true, nil
	}
	err = r.UseBlob(digest)
	if errors.Is(err, ErrNotFound) {
		return false, false, nil
	}
	return true, err == nil, err
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

// installBlob renames a temporary file to its blob's path, unless the blob is stored already and
// undamaged.
func (d *Directory) installBlob(ctx context.Context, t tempBlob) error {
	path, err := d.blobPath(t.digest)
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && info.Size() == t.size {
		if found, err := hashFile(ctx, path); err == nil && found == t.digest {
			if err := d.UseBlob(t.digest); !errors.Is(err, ErrNotFound) {
				return err
			}
		}
	}
	return d.install(t.path, path, UntilPowerLoss)
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

// FlushBlobs implements [Blobs]. Packs need no flush: they were flushed before they became
// visible.
func (d *Directory) FlushBlobs(digests []spec.Digest) error {
	paths := make([]string, 0, len(digests))
	for _, digest := range digests {
		path, err := d.blobPath(digest)
		if err != nil {
			return err
		}
		if len(digests) <= fewFiles {
			if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
				if _, err := d.StatBlob(digest); err != nil {
					return err
				}
				continue
			}
		}
		paths = append(paths, path)
	}
	return d.flushFiles(paths)
}

// flushFiles makes installed files survive a power loss.
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
		all.Go(func() error { return syncDir(path) }) // syncDir works for files, too
	}
	return all.Wait()
}

// OpenBlob implements [Blobs]. The result is an [*os.File] unless the blob is packed.
func (d *Directory) OpenBlob(digest spec.Digest) (io.ReadCloser, error) {
	r := d.reader(false)
	f, err := r.OpenBlob(digest)
	if _, isFile := f.(*os.File); isFile || err != nil {
		return f, errors.Join(err, r.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{f, r}, nil
}

// StatBlob implements [Blobs].
func (d *Directory) StatBlob(digest spec.Digest) (info BlobInfo, err error) {
	path, err := d.blobPath(digest)
	if err != nil {
		return info, err
	}
	file, err := os.Lstat(path)
	if err == nil {
		info = BlobInfo{file.Size(), file.ModTime()}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return info, err
	}
	isFile := err == nil
	err = d.inPacks(digest, isFile, func(p *pack, at packed) error {
		file, err := os.Lstat(p.data())
		if err == nil && !file.ModTime().Before(info.Used) {
			info = BlobInfo{int64(at.size), file.ModTime()}
		}
		return err
	})
	if isFile && errors.Is(err, ErrNotFound) {
		err = nil
	}
	return info, err
}

// UseBlob implements [Blobs]. The modification time of a blob's file, or of the packs that
// contain it, is the time of its last use.
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
		return d.inPacks(digest, false, func(p *pack, _ packed) error {
			err := os.Chtimes(p.data(), now, now)
			if err == nil {
				p.used.Store(now.UnixNano())
			}
			return err
		})
	})
}

// recentlyUsed reports whether this process has just marked a pack that contains the blob as
// used.
func (d *Directory) recentlyUsed(digest spec.Digest) (lately bool) {
	const moment = 100 * time.Millisecond
	err := d.inPacks(digest, true, func(p *pack, _ packed) error {
		age := d.now().Sub(time.Unix(0, p.used.Load()))
		lately = lately || age >= 0 && age < moment
		return nil
	})
	return lately && err == nil
}

// ListBlobs implements [Blobs].
func (d *Directory) ListBlobs(ctx context.Context, blob func(digest spec.Digest), stray func(key, what string)) error {
	if err := d.listPacked(ctx, blob, stray); err != nil {
		return err
	}
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

// SweepBlobs implements [Blobs] with a file lock. Packs with a large unused part are rewritten.
func (d *Directory) SweepBlobs(sweep func(remove func(digest spec.Digest) error) error) error {
	var packed sweptPacks
	err := d.withSweepLock(unix.LOCK_EX, func() error {
		if err := packed.begin(d); err != nil {
			return err
		}
		err := sweep(func(digest spec.Digest) error {
			path, err := d.blobPath(digest)
			if err == nil {
				packed.remove(digest)
				err = os.Remove(path)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		})
		return errors.Join(err, packed.sweep(d))
	})
	if err != nil {
		return err
	}
	return d.compact()
}

// QuarantineBlob implements [Blobs]. Another process may have repaired the blob in the meantime.
// So the moved file is verified again, and moved back if it is undamaged.
func (d *Directory) QuarantineBlob(ctx context.Context, digest spec.Digest) (string, error) {
	path, err := d.blobPath(digest)
	if err != nil {
		return "", err
	}
	moved, packed := d.quarantinePacked(digest)
	if moved != "" || packed != nil && !errors.Is(packed, ErrNotFound) {
		return moved, packed
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return "", packed
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
	// A pack may contain the blob, too. Using the file has not marked that pack as used.
	if err := d.UseBlob(digest); err != nil && !errors.Is(err, ErrNotFound) {
		return "", err
	}
	return d.Rel(to), nil
}
