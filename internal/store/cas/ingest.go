package cas

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/storage"
)

// workers returns how many directories are read or written concurrently.
func workers() int { return min(max(runtime.GOMAXPROCS(0), 2), 8) }

// ingestion stores the content of scanned files in one commit with the documents that refer to
// it.
type ingestion struct {
	store    *Store
	root     *os.Root
	secrets  *secrets.Set
	fixModes bool
	// files are the files that the scan found.
	files []found

	// blobs collects the blobs to be stored.
	blobs storage.BlobBatch
}

// run reads the scanned files.
func (in *ingestion) run(ctx context.Context) (err error) {
	if in.blobs, err = in.store.backend.NewBatch(); err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	unread := map[string][]*found{} // by their directories
	for i := range in.files {
		switch f := &in.files[i]; {
		case f.keeps:
		case f.Link == "":
			dir := path.Dir(f.path)
			unread[dir] = append(unread[dir], f)
		default:
			if err := in.link(f); err != nil {
				return err
			}
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers())
	for dir, files := range unread {
		g.Go(func() error { return in.directory(ctx, dir, files) })
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

func (in *ingestion) link(f *found) error {
	if f.before() == f.Entry {
		return nil
	}
	return checkNames(in.secrets, f.path, f.Link)
}

// directory stores files of one directory.
func (in *ingestion) directory(ctx context.Context, at string, files []*found) (err error) {
	dir, err := in.root.OpenRoot(at)
	if err != nil {
		return ofTree(at, "opened", err)
	}
	defer closing(dir, &err)
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := in.file(ctx, dir, f)
		if _, refused := errors.AsType[*RefusedError](err); err != nil && !refused {
			err = fmt.Errorf("store %q: %w", f.path, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// file stores one file.
func (in *ingestion) file(ctx context.Context, dir *os.Root, f *found) error {
	if f.old == nil {
		if err := checkNames(in.secrets, f.path, ""); err != nil {
			return err
		}
	}
	src, err := openFile(dir, f.listed, in.fixModes)
	if err != nil {
		return ofTree(f.path, "opened", err)
	}
	defer src.Close() //nolint:errcheck // only read
	f.Entry, err = in.content(ctx, src, f)
	if replaced := checkSame(src, f.listed); replaced != nil { // also explains a read error, so it comes first
		return ofTree(f.path, "read", replaced)
	}
	if err != nil {
		return err
	}
	f.Executable = f.listed.mode&0o100 != 0
	return nil
}

// tooLarge says why a file is not kept.
func tooLarge(size, limit int64) string {
	return fmt.Sprintf("has %d bytes; at most %d are allowed (limits.file_bytes)", size, limit)
}

// maxInMemory is the size in bytes from which on a file is not read into memory.
const maxInMemory = 256 << 10

// content stores the content of a file, unless the base tree has it at the path.
func (in *ingestion) content(ctx context.Context, src io.Reader, f *found) (Entry, error) {
	data, err := io.ReadAll(io.LimitReader(src, maxInMemory))
	switch {
	case err != nil:
		return Entry{}, err
	case len(data) == maxInMemory:
		return in.stream(ctx, io.MultiReader(bytes.NewReader(data), src), f)
	}
	e := Entry{SHA256: spec.DigestOf(data), Size: int64(len(data))}
	if e.SHA256 == f.before().SHA256 {
		return e, nil
	}
	if name, found := in.secrets.Find(data); found {
		return e, holdsSecret(f.path, name)
	}
	return e, in.blobs.Put(ctx, e.SHA256, data)
}

// stream is content by way of a temporary file.
func (in *ingestion) stream(ctx context.Context, src io.Reader, f *found) (e Entry, err error) {
	temp, err := in.blobs.NewBlob()
	if err != nil {
		return e, err
	}
	defer temp.Close() //nolint:errcheck // a later sweep removes leftovers
	limit := in.store.options.Limits.FileBytes
	scan := in.secrets.Scanner()
	e.Size, e.SHA256, err = storage.Copy(ctx, io.MultiWriter(scan, temp), io.LimitReader(src, max(limit, f.before().Size)+1))
	if err != nil {
		return e, err
	}
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

func holdsSecret(p, name string) error {
	return &RefusedError{p, fmt.Sprintf("contains a secret of the worker, the value of %s, possibly encoded; remove it, and read "+
		"it from the environment instead", name)}
}

// checkNames refuses a path or a link's target that holds a secret.
func checkNames(s *secrets.Set, p, target string) error {
	for _, text := range []string{p, target} {
		if name, found := s.Find([]byte(text)); found {
			return holdsSecret(s.Mask(p), name)
		}
	}
	return nil
}
