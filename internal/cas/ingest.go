package cas

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/maestro-hive/maestro/internal/secrets"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

// batchSize is how many files of one directory a worker handles at a time.
const batchSize = 128

// Workers returns how many files are read or written concurrently.
func Workers() int { return min(max(runtime.GOMAXPROCS(0), 2), 8) }

// ingestion stores the content of scanned files in one commit with the documents that refer to
// it.
type ingestion struct {
	store    *Store
	root     *os.Root
	secrets  *secrets.Set
	fixModes bool
	// clock is the kernel's clock before the scan; zero: stamps cannot be relied on.
	clock clock
	// files are the files that the scan found.
	files []found

	// blobs collects the blobs to be stored.
	blobs storage.BlobBatch
}

// run reads the scanned files, except those with a known stamp.
func (in *ingestion) run(ctx context.Context) (err error) {
	if in.blobs, err = in.store.backend.NewBatch(); err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	var batches [][]*found
	for files := range in.directories {
		var unknown []*found
		for i := range files {
			switch f := &files[i]; {
			case f.keeps:
			case f.stampValid:
			case f.Link == "":
				unknown = append(unknown, f)
			default:
				if err := in.link(f); err != nil {
					return err
				}
			}
		}
		batches = slices.AppendSeq(batches, slices.Chunk(unknown, batchSize))
	}
	if len(batches) == 0 {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(Workers())
	for _, b := range batches {
		g.Go(func() error { return in.batch(ctx, b) })
	}
	return g.Wait()
}

// manifest returns the files and links that were found.
func (in *ingestion) manifest() Manifest {
	m := make(Manifest, len(in.files))
	for _, f := range in.files {
		m[f.path] = f.Entry
	}
	return m
}

// tree returns the files and links that were found, as a whole tree.
func (in *ingestion) tree() *Tree {
	return in.store.treeOf(func(yield func(string, Entry) bool) {
		for i := range in.files {
			if !yield(in.files[i].path, in.files[i].Entry) {
				return
			}
		}
	})
}

// stamps returns the valid stamps of the files that were found, whose tree is manifest.
func (in *ingestion) stamps(manifest spec.Digest) stamps {
	s := stamps{manifest, true, make(map[string]stamped, len(in.files))}
	for i := range in.files {
		f := &in.files[i]
		if s.whole = s.whole && f.stampValid; f.stampValid {
			s.files[f.path] = stamped{f.SHA256, f.listed.text()}
		}
	}
	return s
}

// directories yields the files of each directory.
func (in *ingestion) directories(yield func([]found) bool) {
	for rest := in.files; len(rest) > 0; {
		dir, _ := splitPath(rest[0].path)
		n := 1
		for ; n < len(rest); n++ {
			if at, _ := splitPath(rest[n].path); at != dir {
				break
			}
		}
		if !yield(rest[:n]) {
			return
		}
		rest = rest[n:]
	}
}

func (in *ingestion) link(f *found) error {
	f.stampValid = in.clock.isAfter(f.listed.stamp)
	if f.before() == f.Entry {
		return nil
	}
	return checkNames(in.secrets, f.path, f.Link)
}

// batch stores a batch of files of one directory.
func (in *ingestion) batch(ctx context.Context, files []*found) (err error) {
	at := path.Dir(files[0].path)
	dir, err := openDirectory(in.root, at)
	if err != nil {
		return ofTree(at, "opened", err)
	}
	defer closing(dir, &err)
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := in.file(ctx, dir, f)
		var refused *RefusedError
		switch {
		case errors.As(err, &refused):
			return err
		case err != nil:
			return fmt.Errorf("store %q: %w", f.path, err)
		}
	}
	return nil
}

// file stores one file. The stamp is valid if the file did not change while it was read.
func (in *ingestion) file(ctx context.Context, dir directory, f *found) error {
	if f.old == nil {
		if err := checkNames(in.secrets, f.path, ""); err != nil {
			return err
		}
	}
	src, err := dir.openUnchecked(f.listed, in.fixModes)
	if err != nil {
		return ofTree(f.path, "opened", err)
	}
	defer src.Close() //nolint:errcheck // only read
	if f.listed.Size < storage.BufferSize {
		f.Entry, err = in.storeSmall(ctx, src, f.listed.Size, f)
	} else {
		f.Entry, err = in.storeLarge(ctx, src, f)
	}
	before := f.listed.stamp
	after, replaced := src.checkSame(f.listed)
	if replaced != nil { // also explains a read error, so it comes first
		return ofTree(f.path, "read", replaced)
	}
	if err != nil {
		return err
	}
	f.Executable, f.listed.stamp = f.executable(), after
	f.stampValid = in.clock.isAfter(before) && after == before && before.Size == f.Size
	return nil
}

// tooLarge says why a file is not kept.
func tooLarge(size, limit int64) string {
	return fmt.Sprintf("has %d bytes; at most %d are allowed (limits.file_bytes)", size, limit)
}

// storeSmall stores a file that fits into a buffer. Content that the base tree has is not stored
// again.
func (in *ingestion) storeSmall(ctx context.Context, src io.Reader, size int64, f *found) (Entry, error) {
	buf, release := storage.Buffer()
	defer release()
	n, err := src.Read(buf)
	if err == nil && int64(n) != size { // it is being changed, or its file system reports a wrong size
		var more int
		more, err = io.ReadFull(src, buf[n:])
		n += more
		if err == nil {
			return in.storeStream(ctx, io.MultiReader(bytes.NewReader(buf), src), f)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return Entry{}, err
	}
	data := buf[:n]
	e := Entry{SHA256: DigestOf(data), Size: int64(n)}
	if e.SHA256 == f.before().SHA256 {
		return e, nil
	}
	if name, found := in.secrets.Find(data); found {
		return e, holdsSecret(f.path, name)
	}
	return e, in.blobs.Put(e.SHA256, data)
}

// storeLarge stores a file by way of a temporary file. If the base tree has a file of this size
// at the path, the content is hashed first, and stored only if it differs.
func (in *ingestion) storeLarge(ctx context.Context, src descriptor, f *found) (Entry, error) {
	if old := f.before(); old.SHA256 != "" && old.Size == f.listed.Size {
		h := sha256.New()
		n, err := storage.Copy(ctx, h, src)
		if err != nil {
			return Entry{}, err
		}
		if digestFrom(h) == old.SHA256 {
			return Entry{SHA256: old.SHA256, Size: n}, nil
		}
		if n > in.store.limits.FileBytes {
			return Entry{}, &RefusedError{f.path, tooLarge(n, in.store.limits.FileBytes)}
		}
		if _, err := syscall.Seek(int(src), 0, io.SeekStart); err != nil {
			return Entry{}, err
		}
	}
	return in.storeStream(ctx, src, f)
}

func (in *ingestion) storeStream(ctx context.Context, src io.Reader, f *found) (e Entry, err error) {
	temp, err := in.blobs.NewBlob()
	if err != nil {
		return e, err
	}
	defer temp.Close() //nolint:errcheck // a later sweep removes leftovers
	limit := in.store.limits.FileBytes
	h := sha256.New()
	scan := in.secrets.Scanner()
	e.Size, err = storage.Copy(ctx, io.MultiWriter(h, scan, temp), io.LimitReader(src, limit+1))
	if err != nil {
		return e, err
	}
	e.SHA256 = digestFrom(h)
	secret, found := scan.Found()
	switch {
	case e.SHA256 == f.before().SHA256:
		return e, nil
	case e.Size > limit:
		return e, &RefusedError{f.path, tooLarge(e.Size, limit)}
	case found:
		return e, holdsSecret(f.path, secret)
	}
	return e, temp.Add(e.SHA256)
}

// close discards everything that was not committed.
func (in *ingestion) close() error {
	if in == nil || in.blobs == nil {
		return nil
	}
	return in.blobs.Close()
}

// commit stores everything durably.
func (in *ingestion) commit(ctx context.Context) error {
	if err := in.blobs.Commit(ctx); err != nil {
		return fmt.Errorf("write to the store: %w", err)
	}
	return nil
}
