package store

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/team"
)

// The bounds of an archive: far above what a session leaves.
const (
	maxArchiveDocument  = 256 << 20
	maxArchiveDocuments = 1 << 30
	maxArchiveEntries   = 4_000_000
	maxArchiveBlob      = 1 << 40
)

// ArchiveError says what in an archive is not as it was written.
type ArchiveError struct {
	// Entry is the file in the archive; empty for the archive as a whole.
	Entry string
	// What says what is wrong, and what would be right.
	What string
}

// Error names the entry and the fault.
func (e *ArchiveError) Error() string {
	if e.Entry == "" {
		return e.What
	}
	return fmt.Sprintf("%q: %s", team.Shorten(e.Entry, 120), e.What)
}

func archiveFault(entry, format string, args ...any) error {
	return &ArchiveError{entry, fmt.Sprintf(format, args...)}
}

// ReadArchive puts the session of an archive into the store, under another name
// if session is not empty. Everything is verified on the way in: what is not as
// WriteArchive wrote it is an [*ArchiveError], and no session is then there; the
// blobs that had come are left to the next prune. A session that is there already
// is [ErrSessionExists].
//
// Under its own name the session's chain of checkpoints is the same, byte for
// byte; under another its checkpoints are sealed anew. It belongs to this store
// from then on, and is closed: one that was under way counts as failed.
func (s *Store) ReadArchive(ctx context.Context, r io.Reader, namespace, session string) (Archived, error) {
	in := &unpacking{store: s, documents: map[string][]byte{}}
	zip, err := gzip.NewReader(r)
	if err != nil {
		return Archived{}, archiveFault("", "it is no archive of `checkpoints export`: %s", err)
	}
	in.tar = tar.NewReader(zip)
	if err := in.begin(namespace, session); err != nil {
		return Archived{}, err
	}
	if err := in.entries(ctx); err != nil {
		return Archived{}, err
	}
	// Reading to the end verifies the compression's own checksum.
	if n, err := io.CopyN(io.Discard, zip, 1); n != 0 || !errors.Is(err, io.EOF) {
		return Archived{}, archiveFault("", "there is more behind its end, or its end is damaged; export it again")
	}
	p, out, err := in.session(ctx)
	if err != nil {
		return Archived{}, err
	}
	if err := s.plant(ctx, p); err != nil {
		return Archived{}, err
	}
	return out, nil
}

// unpacking is an archive being read.
type unpacking struct {
	store *Store
	tar   *tar.Reader
	index archiveIndex
	// key is the session to be made.
	key       team.SessionKey
	documents map[string][]byte
	blobs     map[team.Digest]bool
	bytes     int64
}

// next returns the next entry. What is no plain file is a fault.
func (in *unpacking) next() (*tar.Header, error) {
	h, err := in.tar.Next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	case err != nil:
		return nil, archiveFault("", "it is damaged or cut short: %s; export it again", err)
	case h.Typeflag != tar.TypeReg:
		return nil, archiveFault(h.Name, "is no plain file; an archive holds nothing else")
	}
	return h, nil
}

// document reads an entry into memory.
func (in *unpacking) document(h *tar.Header) ([]byte, error) {
	in.bytes += h.Size
	if h.Size > maxArchiveDocument || in.bytes > maxArchiveDocuments {
		return nil, archiveFault(h.Name, "has %d bytes, which is more than a session's documents can have", h.Size)
	}
	var buf bytes.Buffer
	if _, err := io.Copy(&buf, io.LimitReader(in.tar, h.Size)); err != nil {
		return nil, archiveFault(h.Name, "is damaged or cut short: %s; export it again", err)
	}
	return buf.Bytes(), nil
}

// begin reads the list of contents and decides on the session's name.
func (in *unpacking) begin(namespace, session string) error {
	h, err := in.next()
	if errors.Is(err, io.EOF) {
		return archiveFault("", "it is empty; export it again")
	}
	if err != nil {
		return err
	}
	if h.Name != archiveList {
		return archiveFault(h.Name, "is not what an archive of `checkpoints export` begins with; that is %s", archiveList)
	}
	data, err := in.document(h)
	if err != nil {
		return err
	}
	if err := unseal(data, &in.index); err != nil {
		return archiveFault(archiveList, "%s; export it again", err)
	}
	if in.index.Schema != archiveSchema {
		return archiveFault(archiveList, "its schema is %q; this program reads %s", team.Shorten(in.index.Schema, 80), archiveSchema)
	}
	if len(in.index.Blobs)+len(in.index.Documents) > maxArchiveEntries {
		return archiveFault(archiveList, "lists %d files; at most %d are allowed", len(in.index.Blobs)+len(in.index.Documents), maxArchiveEntries)
	}
	if err := team.CheckSession(in.index.Session); err != nil {
		return archiveFault(archiveList, "session: %s", err)
	}
	if session == "" {
		session = in.index.Session
	}
	in.key = team.SessionKey{Namespace: namespace, Session: session}
	in.blobs = make(map[team.Digest]bool, len(in.index.Blobs))
	return in.store.checkVacancy(in.key)
}

// entries reads the documents and stores the blobs.
func (in *unpacking) entries(ctx context.Context) error {
	for {
		h, err := in.next()
		if errors.Is(err, io.EOF) {
			return in.complete()
		}
		if err != nil {
			return err
		}
		if name, ok := strings.CutPrefix(h.Name, archiveBlobs); ok {
			err = in.blob(ctx, h, team.Digest(name))
		} else {
			err = in.listed(h)
		}
		if err != nil {
			return err
		}
	}
}

// listed reads a document that the list has.
func (in *unpacking) listed(h *tar.Header) error {
	want, ok := in.index.Documents[h.Name]
	if _, twice := in.documents[h.Name]; !ok || twice {
		return archiveFault(h.Name, "is not in the archive's list, or in the archive twice; export it again")
	}
	data, err := in.document(h)
	if err != nil {
		return err
	}
	if digestOf(data) != want {
		return archiveFault(h.Name, "is not what the archive's list says; export it again")
	}
	in.documents[h.Name] = data
	return nil
}

// blob stores a blob that the list has.
func (in *unpacking) blob(ctx context.Context, h *tar.Header, name team.Digest) error {
	size, ok := in.index.Blobs[name]
	if !ok || in.blobs[name] || !name.Valid() {
		return archiveFault(h.Name, "is not in the archive's list, or in the archive twice; export it again")
	}
	if h.Size != size || size > maxArchiveBlob {
		return archiveFault(h.Name, "has %d bytes, and the archive's list says %d; export it again", h.Size, size)
	}
	f, err := in.store.temp()
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // gone where it was installed
	hash := sha256.New()
	n, err := in.store.copy(ctx, io.MultiWriter(f, hash), &archiveReader{in.tar, h.Name})
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if n != size || digestFrom(hash) != name {
		return archiveFault(h.Name, "its content is not what its name says; export it again")
	}
	if _, err := in.store.installLoose(ctx, f.Name(), Entry{SHA256: name, Size: size}); err != nil {
		return err
	}
	in.blobs[name] = true
	return syncFile(in.store.blobPath(name))
}

// archiveReader tells a damaged archive from a store that cannot be used.
type archiveReader struct {
	r     io.Reader
	entry string
}

func (r *archiveReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = archiveFault(r.entry, "is damaged or cut short: %s; export it again", err)
	}
	return n, err
}

// complete requires all that the list has.
func (in *unpacking) complete() error {
	for _, name := range slices.Sorted(maps.Keys(in.index.Documents)) {
		if in.documents[name] == nil {
			return archiveFault(name, "is in the archive's list and not in the archive; export it again")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in.index.Blobs)) {
		if !in.blobs[name] {
			return archiveFault(archiveBlobs+string(name), "is in the archive's list and not in the archive; export it again")
		}
	}
	return nil
}
