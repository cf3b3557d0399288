package cas

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

// PutBlob stores data and returns its digest. When it returns, the blob survives a power loss. If
// the blob exists, it is not written again, unless it is damaged: then it is replaced.
func (s *Store) PutBlob(ctx context.Context, data []byte) (spec.Digest, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	name := spec.DigestOf(data)
	if err := s.backend.PutBlob(ctx, name, data); err != nil {
		return "", fmt.Errorf("store a blob: %w", err)
	}
	return name, nil
}

// Blob returns a blob's bytes, verified. The error is [session.ErrNotFound] if there is no such
// blob, and [session.ErrCorrupt] if its content does not match its digest; the damaged file is
// then in the directory damaged.
func (s *Store) Blob(ctx context.Context, name spec.Digest) ([]byte, error) {
	return s.blobUpTo(ctx, name, math.MaxInt64, "")
}

// errRepaired says that a damaged blob was repaired, or a damaged copy of it removed.
var errRepaired = errors.New("was damaged and has been repaired; try again")

// blobUpTo is [Store.Blob] for a blob of at most so many bytes: a larger one is not of the wanted kind.
func (s *Store) blobUpTo(ctx context.Context, name spec.Digest, most int64, kind string) (data []byte, err error) {
	data, err = s.tryBlob(ctx, name, most, kind)
	if errors.Is(err, errRepaired) {
		data, err = s.tryBlob(ctx, name, most, kind)
	}
	return data, err
}

func (s *Store) tryBlob(ctx context.Context, name spec.Digest, most int64, kind string) ([]byte, error) {
	f, err := s.openBlob(ctx, name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return nil, s.readError(name, err)
	}
	if info.Size() > most {
		return nil, s.WrongKind(name, kind, fmt.Errorf("it has %d bytes", info.Size()))
	}
	buf := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead))
	_, err = s.copyBlob(ctx, name, buf, f)
	return buf.Bytes(), err
}

// Fetch brings many blobs to this host at once, if they are elsewhere. It ignores those that do not exist.
func (s *Store) Fetch(ctx context.Context, names ...spec.Digest) error {
	return s.backend.Fetch(ctx, names)
}

// CopyBlob writes a blob to w and returns its size in bytes. Damage is detected only after the
// content was written: after an error, the content in w must not be used. Errors are those of
// [Store.Blob], and w's own.
func (s *Store) CopyBlob(ctx context.Context, name spec.Digest, w io.Writer) (int64, error) {
	f, err := s.openBlob(ctx, name)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // only read
	return s.copyBlob(ctx, name, w, f)
}

func (s *Store) copyBlob(ctx context.Context, name spec.Digest, w io.Writer, f *os.File) (int64, error) {
	n, found, err := storage.Copy(ctx, w, f)
	if err != nil {
		return n, fmt.Errorf("read blob %s: %w", name.Short(), err)
	}
	if found != name {
		return n, s.moveDamaged(ctx, name)
	}
	return n, nil
}

// VerifyBlobs reads blobs where they are stored, and calls report with the size of each, or with the error of [Store.Blob].
// It ends with the first error of report.
func (s *Store) VerifyBlobs(ctx context.Context, names []spec.Digest, report func(spec.Digest, int64, error) error) error {
	if b, ok := s.backend.(*storage.Bucket); ok {
		return b.VerifyBlobs(ctx, names, func(name spec.Digest, size int64, err error) error {
			if err != nil {
				err = s.readError(name, err)
			}
			return report(name, size, err)
		})
	}
	for _, name := range names {
		n, err := s.CopyBlob(ctx, name, io.Discard)
		if err := report(name, n, err); err != nil {
			return err
		}
	}
	return nil
}

// openBlob opens a blob for reading.
func (s *Store) openBlob(ctx context.Context, name spec.Digest) (*os.File, error) {
	r, err := s.backend.OpenBlob(ctx, name)
	if err != nil {
		return nil, s.readError(name, err)
	}
	return r, nil
}

// BlobSize returns the size of a blob in bytes. Errors are those of [Store.Blob].
func (s *Store) BlobSize(ctx context.Context, name spec.Digest) (int64, error) {
	found, err := s.backend.StatBlobs(ctx, name)
	info, ok := found[name]
	if err == nil && !ok {
		err = storage.ErrNotFound
	}
	if err != nil {
		return 0, s.readError(name, err)
	}
	return info.Size, nil
}

// readError returns the error for a blob that could not be opened or read.
func (s *Store) readError(name spec.Digest, err error) error {
	var damaged *storage.DamagedError
	switch {
	case errors.Is(err, storage.ErrKey):
		return fmt.Errorf("blob %q: %w: a blob's name is 64 lower-case hex digits", textfmt.Shorten(string(name), 80),
			session.ErrNotFound)
	case errors.As(err, &damaged):
		kind := session.ErrCorrupt
		if damaged.Missing {
			kind = session.ErrNotFound
		}
		return &Fault{Path: storage.BlobKey(name), What: damaged.Error(), Kind: kind}
	case errors.Is(err, storage.ErrNotFound):
		what := "the store " + s.options.StoreDir + " has no such blob"
		return &Fault{Path: storage.BlobKey(name), What: what, Kind: session.ErrNotFound}
	}
	return fmt.Errorf("read blob %s: %w", name.Short(), err)
}

// moveDamaged moves a damaged blob to the directory damaged and returns the error to report.
func (s *Store) moveDamaged(ctx context.Context, name spec.Digest) error {
	key := storage.BlobKey(name)
	moved, err := s.backend.MoveDamaged(ctx, name)
	switch {
	case err != nil:
		return &Fault{Path: key, What: "cannot be moved to the directory damaged: " + err.Error(), Kind: session.ErrCorrupt}
	case moved == "":
		return fmt.Errorf("blob %s %w", name, errRepaired)
	}
	return &Fault{Path: key, What: "the blob's content does not match its name", MovedTo: moved, Kind: session.ErrCorrupt}
}

// WrongKind returns the error for an intact blob that is not of the expected kind.
func (s *Store) WrongKind(name spec.Digest, what string, cause error) error {
	return &Fault{Path: storage.BlobKey(name), What: "the blob is no " + what + ": " + cause.Error(), Kind: session.ErrNotFound}
}
