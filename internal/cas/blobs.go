package cas

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// bufferSize is the unit in which files are read and written, in bytes. A file
// up to this size is handled in memory.
const bufferSize = 256 << 10

// DigestOf is the name of the blob with this content.
func DigestOf(data []byte) spec.Digest {
	sum := sha256.Sum256(data)
	return spec.Digest(hex.EncodeToString(sum[:]))
}

func digestFrom(h hash.Hash) spec.Digest { return spec.Digest(hex.EncodeToString(h.Sum(nil))) }

// BlobPath is where a blob lies. The name must be valid.
func (s *Store) BlobPath(name spec.Digest) string {
	return s.path("blobs", "sha256", string(name[:2]), string(name[2:]))
}

// buffer lends a buffer of bufferSize until release is called.
func (s *Store) buffer() (buf []byte, release func()) {
	b := s.buffers.Get().(*[]byte) //nolint:forcetypeassert // the pool holds nothing else
	return *b, func() { s.buffers.Put(b) }
}

// PutBlob stores data and returns its name. When it returns, the blob outlives
// a power loss. Storing what is there already does nothing, unless that is
// damaged: then it is fixed.
func (s *Store) PutBlob(ctx context.Context, data []byte) (spec.Digest, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	name := DigestOf(data)
	path := s.BlobPath(name)
	there, err := s.holds(name, data)
	if err != nil {
		return "", fmt.Errorf("look for a blob: %w", err)
	}
	switch {
	case !there:
		if err := s.files.WriteFile(path, data, storage.Durable); err != nil {
			return "", fmt.Errorf("store a blob: %w", err)
		}
	case s.knownDurable(name):
	default: // another process may have written it a moment ago
		if err := syncFile(path); err != nil {
			return "", fmt.Errorf("flush a blob: %w", err)
		}
	}
	s.NoteDurable(name)
	return name, nil
}

// durableFor is how long this process relies on having flushed a blob: far less
// than the age at which a blob can be pruned, to be stored anew by others.
const durableFor = time.Hour

// flushed are the blobs that this process has lately made durable.
type flushed struct {
	mu    sync.Mutex
	names RecentDigests
	since time.Time
}

// within returns the names, forgetting all when they are from too long ago.
func (f *flushed) within(now time.Time) *RecentDigests {
	f.mu.Lock()
	defer f.mu.Unlock()
	if age := now.Sub(f.since); age > durableFor || age < 0 {
		f.names.Clear()
		f.since = now
	}
	return &f.names
}

// NoteDurable remembers that a blob was flushed.
func (s *Store) NoteDurable(name spec.Digest)       { s.flushed.within(s.now()).Add(name) }
func (s *Store) knownDurable(name spec.Digest) bool { return s.flushed.within(s.now()).Has(name) }

// PutUnflushed stores a file's content so that it survives the process; flush
// makes it survive a power loss, be it new or there already. It does not use the
// reserve. written is the file that it has made; nil: it was there.
func (s *Store) PutUnflushed(name spec.Digest, data []byte) (written fs.FileInfo, err error) {
	there, err := s.holds(name, data)
	if err != nil || there {
		return nil, err
	}
	path := s.BlobPath(name)
	temp, err := s.files.WriteTempOnce(path, data, storage.UntilPowerLoss)
	if err != nil {
		return nil, err
	}
	if written, err = os.Lstat(temp.Name()); err != nil {
		return nil, err
	}
	return written, s.files.InstallTemp(temp, path, storage.UntilPowerLoss)
}

// holds reports whether a blob is stored with exactly this content. What is stored
// is marked as used now, so that it does not look abandoned, even if it is about
// to be replaced. What was pruned meanwhile is not stored.
func (s *Store) holds(name spec.Digest, data []byte) (bool, error) {
	path := s.BlobPath(name)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // only read
	same, err := s.sameContent(f, data)
	if err != nil {
		return false, err
	}
	err = s.MarkUsed(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return same && err == nil, err
}

func (s *Store) sameContent(f *os.File, data []byte) (bool, error) {
	info, err := f.Stat()
	if err != nil || info.Size() != int64(len(data)) {
		return false, err
	}
	buf, release := s.buffer()
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

// MarkUsed marks a blob as used now: what is young is never pruned. Afterwards
// the blob is there for a day, or the error is [fs.ErrNotExist].
func (s *Store) MarkUsed(path string) error {
	return s.withSweepShared(func() error {
		now := s.now()
		return os.Chtimes(path, now, now)
	})
}

// Blob returns a blob's bytes, verified. The error is [session.ErrNotFound] where
// there is none, and [session.ErrCorrupt] where its content was not what its name
// says; the damaged file is then in the quarantine.
func (s *Store) Blob(ctx context.Context, name spec.Digest) ([]byte, error) {
	var buf bytes.Buffer
	if _, err := s.CopyBlob(ctx, name, &buf); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// CopyBlob writes a blob to w and returns its size in bytes. A damaged blob is
// noticed only once it has been written: with an error, what w got must not be
// used. Errors are those of [Store.Blob], and w's own.
func (s *Store) CopyBlob(ctx context.Context, name spec.Digest, w io.Writer) (int64, error) {
	f, err := s.OpenBlob(name)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	if b, ok := w.(*bytes.Buffer); ok {
		if info, err := f.Stat(); err == nil {
			b.Grow(int(info.Size()) + bytes.MinRead)
		}
	}
	h := sha256.New()
	n, err := s.copy(ctx, io.MultiWriter(h, w), f)
	if err != nil {
		return n, fmt.Errorf("read blob %s: %w", name.Short(), err)
	}
	if digestFrom(h) != name {
		return n, s.quarantineBlob(ctx, name)
	}
	return n, nil
}

// OpenBlob opens a blob for reading.
func (s *Store) OpenBlob(name spec.Digest) (*os.File, error) {
	if !name.Valid() {
		return nil, fmt.Errorf("blob %q: %w: a blob's name is 64 lower-case hex digits", textfmt.Shorten(string(name), 80), session.ErrNotFound)
	}
	f, err := os.Open(s.BlobPath(name))
	if errors.Is(err, fs.ErrNotExist) {
		s.dropIndexes()
		return nil, &Fault{Path: s.rel(s.BlobPath(name)), What: "the store " + s.dir + " has no such blob", Kind: session.ErrNotFound}
	}
	if err != nil {
		return nil, fmt.Errorf("open a blob: %w", err)
	}
	return f, nil
}

// copy copies r to w until its end or the context's.
func (s *Store) copy(ctx context.Context, w io.Writer, r io.Reader) (int64, error) {
	buf, release := s.buffer()
	defer release()
	var total int64
	for {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		n, err := r.Read(buf)
		if n > 0 {
			total += int64(n)
			if _, err := w.Write(buf[:n]); err != nil {
				return total, err
			}
		}
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// hashFile returns the digest and size of a file's content.
func (s *Store) hashFile(ctx context.Context, path string) (spec.Digest, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	h := sha256.New()
	n, err := s.copy(ctx, h, f)
	return digestFrom(h), n, err
}

// quarantineBlob quarantines a blob that did not verify and returns the error to
// report. Another process may have fixed the blob in the meantime; so what was
// moved is looked at again, and a sound blob is put back.
func (s *Store) quarantineBlob(ctx context.Context, name spec.Digest) error {
	path := s.BlobPath(name)
	s.flushed.within(s.now()).Clear()
	to, err := s.files.Quarantine(s.rel(path), "", false)
	moved := s.path(to)
	if err != nil {
		return &Fault{Path: s.rel(path), What: "cannot be moved to the quarantine: " + err.Error(), Kind: session.ErrCorrupt}
	}
	if found, _, err := s.hashFile(ctx, moved); err == nil && found == name {
		if err := os.Rename(moved, path); err != nil {
			return fmt.Errorf("restore blob %s, which is intact: %w", name, err)
		}
		return fmt.Errorf("blob %s was damaged and has been repaired; try again", name)
	}
	s.dropIndexes()
	return &Fault{
		Path: s.rel(path), What: "the blob's content does not match its name",
		Quarantined: s.rel(moved), Kind: session.ErrCorrupt,
	}
}

// WrongKind reports a sound blob that is not what it was asked for as.
func (s *Store) WrongKind(name spec.Digest, what string, cause error) error {
	return &Fault{Path: s.rel(s.BlobPath(name)), What: "the blob is no " + what + ": " + cause.Error(), Kind: session.ErrNotFound}
}
