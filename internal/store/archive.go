package store

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

// ArchiveFile is a gzipped tar of a document and of blobs, without times, so that equal content makes equal archives.
type ArchiveFile struct {
	// Document is the name of the document, and MaxDocument the size up to which it is read, in bytes.
	Document    string
	MaxDocument int64
	// MaxFile and MaxBytes are the size up to which a file, and all files together, are read.
	MaxFile, MaxBytes int64
}

const (
	maxArchiveEntries = 4_000_000
	// maxArchivePadding is how many bytes may follow the archive's end.
	maxArchivePadding = 1 << 20
)

// Write writes the document, and the blobs in the order of their names. It returns the size of all files, in bytes. The blobs
// are verified while they are written; after an error, what was written must not be used.
func (a ArchiveFile) Write(ctx context.Context, w io.Writer, document []byte, content *cas.Store,
	blobs []spec.Digest,
) (total int64, err error) {
	zip := gzip.NewWriter(w)
	t := tar.NewWriter(zip)
	header := func(name string, size int64) error {
		total += size
		return t.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: time.Unix(0, 0), Format: tar.FormatPAX})
	}
	if err := header(a.Document, int64(len(document))); err != nil {
		return total, err
	}
	if _, err := t.Write(document); err != nil {
		return total, err
	}
	if err := content.Fetch(ctx, blobs...); err != nil {
		return total, err
	}
	for _, name := range slices.Sorted(slices.Values(blobs)) {
		size, err := content.BlobSize(ctx, name)
		if err == nil {
			err = header(storage.BlobKey(name), size)
		}
		if err == nil {
			_, err = content.CopyBlob(ctx, name, t)
		}
		if err != nil {
			return total, err
		}
	}
	return total, errors.Join(t.Close(), zip.Close())
}

// ArchiveError says what is wrong with an archive.
type ArchiveError struct {
	// Entry is the file in the archive; empty for the archive as a whole.
	Entry string
	// What says what is wrong.
	What string
}

// Error names the entry and the fault.
func (e *ArchiveError) Error() string {
	if e.Entry == "" {
		return e.What
	}
	return fmt.Sprintf("%q: %s", textfmt.Shorten(e.Entry, 120), e.What)
}

func archiveFault(entry, format string, args ...any) error {
	return &ArchiveError{entry, fmt.Sprintf(format, args...)}
}

func damagedArchive(entry string, err error) error {
	return archiveFault(entry, "is damaged or cut short: %s; make it again", err)
}

// Read reads what Write has written, which may come from anybody: document gets the document, and the blobs are verified and
// added to the batch. It returns the sizes of the blobs. The error is an [*ArchiveError] if it is not such an archive.
func (a ArchiveFile) Read(ctx context.Context, r io.Reader, batch storage.BlobBatch,
	document func(io.Reader) error,
) (blobs map[spec.Digest]int64, err error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return nil, archiveFault("", "it is no archive that Maestro has written: %s", err)
	}
	t := tar.NewReader(zip)
	seen := map[string]bool{}
	blobs = map[spec.Digest]int64{}
	for total := int64(0); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, damagedArchive("", err)
		}
		digest, isBlob := storage.BlobOf(h.Name)
		switch {
		case h.Typeflag != tar.TypeReg:
			return nil, archiveFault(h.Name, "is no plain file; an archive holds nothing else")
		case seen[h.Name]:
			return nil, archiveFault(h.Name, "is in the archive twice; make it again")
		case !isBlob && h.Name != a.Document:
			return nil, archiveFault(h.Name, "is no file of such an archive; make it again")
		case h.Size > a.MaxBytes-total, isBlob && h.Size > a.MaxFile, !isBlob && h.Size > a.MaxDocument, len(seen) > maxArchiveEntries:
			return nil, archiveFault(h.Name, "is more than there can be: %d bytes after %d bytes in %d files", h.Size, total, len(seen))
		}
		seen[h.Name], total = true, total+h.Size
		if isBlob {
			blobs[digest], err = h.Size, addBlob(ctx, batch, h.Name, digest, t)
		} else {
			err = document(t)
		}
		if err != nil {
			return nil, err
		}
	}
	// Reading to the end verifies the checksum of the compression.
	if _, err := io.CopyN(io.Discard, zip, maxArchivePadding); !errors.Is(err, io.EOF) {
		return nil, damagedArchive("", cmp.Or(err, errors.New("there is data after its end")))
	}
	if !seen[a.Document] {
		return nil, archiveFault("", "it has no %s; make it again", a.Document)
	}
	return blobs, nil
}

// addBlob adds a blob of an archive to the batch.
func addBlob(ctx context.Context, batch storage.BlobBatch, name string, digest spec.Digest, r io.Reader) error {
	w, err := batch.NewBlob()
	if err != nil {
		return err
	}
	defer w.Close() //nolint:errcheck // leftovers are removed with the batch
	_, found, err := storage.Copy(ctx, w, r)
	_, ofHost := errors.AsType[*fs.PathError](err)
	switch {
	case ofHost, ctx.Err() != nil:
		return err
	case err != nil:
		return damagedArchive(name, err)
	case found != digest:
		return archiveFault(name, "its content does not match its name; make it again")
	}
	return w.Add(digest)
}
