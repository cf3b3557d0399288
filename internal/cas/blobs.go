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
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// DigestOf is the name of the blob with this content.
func DigestOf(data []byte) spec.Digest {
	digits := digitsOf(data)
	return spec.Digest(digits[:])
}

func digitsOf(data []byte) (digits [2 * sha256.Size]byte) {
	sum := sha256.Sum256(data)
	hex.Encode(digits[:], sum[:])
	return digits
}

// isNamed reports whether a name is that of the blob with this content.
func isNamed(name spec.Digest, data []byte) bool {
	digits := digitsOf(data)
	return string(digits[:]) == string(name)
}

func digestFrom(h hash.Hash) spec.Digest { return spec.Digest(hex.EncodeToString(h.Sum(nil))) }

// blobs stores and reads blobs, verified.
type blobs struct {
	in  storage.Blobs
	now func() time.Time
	// store names the store for people.
	store string
	// flushed need no flushing.
	flushed flushed
	// recent are directories of trees that need not be read again.
	recent recentlyRead
	// indexes are dropped where a blob is missing.
	indexes indexes
}

// PutBlob stores data and returns its name. When it returns, the blob outlives
// a power loss. Storing what is there already does nothing, unless that is
// damaged: then it is fixed.
func (s *blobs) PutBlob(ctx context.Context, data []byte) (spec.Digest, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	name := DigestOf(data)
	durability := storage.Durable
	if s.knownDurable(name) {
		durability = storage.UntilPowerLoss
	}
	made, err := s.in.PutBlob(name, data, durability)
	if err == nil && made && durability != storage.Durable { // it was removed meanwhile
		err = s.in.FlushBlobs([]spec.Digest{name})
	}
	if err != nil {
		return "", fmt.Errorf("store a blob: %w", err)
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
func (s *blobs) NoteDurable(name spec.Digest)       { s.flushed.within(s.now()).Add(name) }
func (s *blobs) knownDurable(name spec.Digest) bool { return s.flushed.within(s.now()).Has(name) }

// Blob returns a blob's bytes, verified. The error is [session.ErrNotFound] where
// there is none, and [session.ErrCorrupt] where its content was not what its name
// says; the damaged file is then in the quarantine.
func (s *blobs) Blob(ctx context.Context, name spec.Digest) ([]byte, error) {
	data, err := s.small(ctx, name)
	if errors.Is(err, io.ErrShortBuffer) {
		return s.large(ctx, name)
	}
	return data, err
}

// small reads a blob of less than [storage.BufferSize]; of another one the error is
// [io.ErrShortBuffer]. Other errors are those of [Store.Blob].
func (s *blobs) small(ctx context.Context, name spec.Digest) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("read blob %s: %w", name.Short(), err)
	}
	buf, release := storage.Buffer()
	defer release()
	from := s.in.BlobReader()
	n, err := from.ReadBlob(name, buf)
	err = errors.Join(err, from.Close())
	switch {
	case errors.Is(err, io.ErrShortBuffer):
		return nil, err
	case err != nil:
		return nil, s.noBlob(name, err)
	case !isNamed(name, buf[:n]):
		return nil, s.quarantineBlob(ctx, name)
	}
	return bytes.Clone(buf[:n]), nil
}

// large reads a blob of any size. Errors are those of [Store.Blob].
func (s *blobs) large(ctx context.Context, name spec.Digest) ([]byte, error) {
	size, err := s.BlobSize(name)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	buf.Grow(int(size) + bytes.MinRead)
	if _, err := s.CopyBlob(ctx, name, &buf); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// CopyBlob writes a blob to w and returns its size in bytes. A damaged blob is
// noticed only once it has been written: with an error, what w got must not be
// used. Errors are those of [Store.Blob], and w's own.
func (s *blobs) CopyBlob(ctx context.Context, name spec.Digest, w io.Writer) (int64, error) {
	f, err := s.openBlob(s.in, name)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	h := sha256.New()
	n, err := storage.Copy(ctx, io.MultiWriter(h, w), f)
	if err != nil {
		return n, fmt.Errorf("read blob %s: %w", name.Short(), err)
	}
	if digestFrom(h) != name {
		return n, s.quarantineBlob(ctx, name)
	}
	return n, nil
}

// opener is where blobs are read from.
type opener interface {
	OpenBlob(name spec.Digest) (io.ReadCloser, error)
}

// openBlob opens a blob for reading.
func (s *blobs) openBlob(from opener, name spec.Digest) (io.ReadCloser, error) {
	r, err := from.OpenBlob(name)
	if err != nil {
		return nil, s.noBlob(name, err)
	}
	return r, nil
}

// BlobSize is the size of a blob in bytes. Errors are those of [Store.Blob].
func (s *blobs) BlobSize(name spec.Digest) (int64, error) {
	info, err := s.in.StatBlob(name)
	if err != nil {
		return 0, s.noBlob(name, err)
	}
	return info.Size, nil
}

// noBlob reports a blob that could not be opened or read.
func (s *blobs) noBlob(name spec.Digest, err error) error {
	switch {
	case errors.Is(err, storage.ErrKey):
		return fmt.Errorf("blob %q: %w: a blob's name is 64 lower-case hex digits", textfmt.Shorten(string(name), 80), session.ErrNotFound)
	case errors.Is(err, storage.ErrNotFound):
		s.indexes.dropIndexes()
		return &Fault{Path: storage.BlobKey(name), What: "the store " + s.store + " has no such blob", Kind: session.ErrNotFound}
	}
	return fmt.Errorf("read blob %s: %w", name.Short(), err)
}

// quarantineBlob quarantines a blob that did not verify and returns the error to report.
func (s *blobs) quarantineBlob(ctx context.Context, name spec.Digest) error {
	s.flushed.within(s.now()).Clear()
	key := storage.BlobKey(name)
	moved, err := s.in.QuarantineBlob(ctx, name)
	switch {
	case err != nil:
		return &Fault{Path: key, What: "cannot be moved to the quarantine: " + err.Error(), Kind: session.ErrCorrupt}
	case moved == "":
		return fmt.Errorf("blob %s was damaged and has been repaired; try again", name)
	}
	s.indexes.dropIndexes()
	return &Fault{Path: key, What: "the blob's content does not match its name", Quarantined: moved, Kind: session.ErrCorrupt}
}

// WrongKind reports a sound blob that is not what it was asked for as.
func (s *blobs) WrongKind(name spec.Digest, what string, cause error) error {
	return &Fault{Path: storage.BlobKey(name), What: "the blob is no " + what + ": " + cause.Error(), Kind: session.ErrNotFound}
}
