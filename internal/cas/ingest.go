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
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/maestro-hive/maestro/internal/secrets"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

// batchSize is how many files of one directory a worker takes at a time.
const batchSize = 128

// Workers is how many files are read or written at a time.
func Workers() int { return min(max(runtime.GOMAXPROCS(0), 2), 8) }

// ingestion stores the content of scanned files.
type ingestion struct {
	store   *Store
	root    *os.Root
	index   *index
	secrets *secrets.Set
	mend    bool

	mu sync.Mutex
	// tree is what was found.
	tree Manifest
	// seen is what can be remembered of it.
	seen map[string]indexed
	// unflushed lists the blobs that must yet be made durable.
	unflushed []spec.Digest
	// stored are the blobs of this ingestion, as it has made them; nil:
	// they were there.
	stored map[spec.Digest]*storage.BlobInfo
}

// run fills tree and seen from the scanned files. A file is only read where the
// index does not vouch for it.
func (in *ingestion) run(ctx context.Context, files []found) error {
	in.tree = make(Manifest, len(files))
	in.seen = make(map[string]indexed, len(files))
	in.stored = map[spec.Digest]*storage.BlobInfo{}
	var batches [][]found
	for _, f := range files {
		if f.link != "" {
			if err := in.link(f); err != nil {
				return err
			}
			continue
		}
		if digest, ok := in.index.known(f.path, f.stamp); ok && f.stamped {
			in.keep(f, Entry{SHA256: digest, Size: f.size, Executable: f.executable}, &f.stamp)
			continue
		}
		if n := len(batches); n > 0 && len(batches[n-1]) < batchSize && path.Dir(batches[n-1][0].path) == path.Dir(f.path) {
			batches[n-1] = append(batches[n-1], f)
		} else {
			batches = append(batches, []found{f})
		}
	}
	if len(batches) == 0 {
		return nil
	}
	clock, trusted := fileClock(in.root)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(Workers())
	for _, b := range batches {
		g.Go(func() error { return in.batch(ctx, b, clock, trusted) })
	}
	return g.Wait()
}

// keep notes an entry, and its stamp where that can be relied on.
func (in *ingestion) keep(f found, e Entry, s *stamp) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.tree[f.path] = e
	if s != nil {
		in.seen[f.path] = indexed{stamp: *s, digest: e.SHA256}
	}
}

func (in *ingestion) link(f found) error {
	e := Entry{Link: f.link}
	if f.old != e {
		if err := checkNames(in.secrets, f.path, f.link); err != nil {
			return err
		}
	}
	in.keep(f, e, nil)
	return nil
}

// batch stores files of one directory. clock is the time by which files are
// stamped, from before the batch was read.
func (in *ingestion) batch(ctx context.Context, files []found, clock int64, trusted bool) (err error) {
	dir, err := in.root.OpenRoot(path.Dir(files[0].path))
	if err != nil {
		return ofTree(path.Dir(files[0].path), "opened", err)
	}
	defer closing(dir, &err)
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, s, err := in.file(ctx, dir, f)
		var refused *RefusedError
		switch {
		case errors.As(err, &refused):
			return err
		case err != nil:
			return fmt.Errorf("keep %q: %w", f.path, err)
		}
		// What was changed after the clock was read bears a later time: a
		// stamp from before it cannot hide a change.
		if trusted && s != nil && s.Changed < clock {
			in.keep(f, e, s)
		} else {
			in.keep(f, e, nil)
		}
	}
	return nil
}

// file stores one file and returns its entry, with the stamp that it bore while
// it was read; nil if it changed meanwhile.
func (in *ingestion) file(ctx context.Context, dir *os.Root, f found) (e Entry, s *stamp, err error) {
	if f.size > in.store.limits.FileBytes && (!f.had || f.old.Size != f.size) {
		return e, nil, tooLarge(f.path, f.size, in.store.limits.FileBytes)
	}
	if !f.had {
		if err := checkNames(in.secrets, f.path, ""); err != nil {
			return e, nil, err
		}
	}
	src, err := openRegular(dir, path.Base(f.path), f.info, in.mend)
	if err != nil {
		return e, nil, ofTree(f.path, "opened", err)
	}
	defer src.Close() //nolint:errcheck // only read
	before, err := src.Stat()
	if err != nil {
		return e, nil, err
	}
	if before.Size() < storage.BufferSize {
		e, err = in.small(ctx, src, f)
	} else {
		e, err = in.large(ctx, src, f)
	}
	if err != nil {
		return e, nil, err
	}
	e.Executable = f.executable
	after, err := src.Stat()
	if err != nil {
		return e, nil, err
	}
	s1, ok1 := stampOf(before)
	s2, ok2 := stampOf(after)
	if ok1 && ok2 && s1 == s2 && s1.Size == e.Size {
		return e, &s1, nil
	}
	return e, nil, nil
}

func tooLarge(p string, size, limit int64) error {
	return &RefusedError{p, fmt.Sprintf("has %d bytes; at most %d are allowed: remove it, or ignore it", size, limit)}
}

// small stores a file through memory. What the base has is not stored again.
func (in *ingestion) small(ctx context.Context, src io.Reader, f found) (Entry, error) {
	buf, release := storage.Buffer()
	defer release()
	n, err := io.ReadFull(src, buf)
	if err == nil { // it has grown meanwhile
		return in.stream(ctx, io.MultiReader(bytes.NewReader(buf), src), f)
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return Entry{}, err
	}
	data := buf[:n]
	e := Entry{SHA256: DigestOf(data), Size: int64(n)}
	if e.SHA256 == f.old.SHA256 {
		return e, nil
	}
	if in.secrets.InBytes(data) {
		return e, holdsSecret(f.path)
	}
	return e, in.put(e.SHA256, data)
}

// put stores a blob.
func (in *ingestion) put(name spec.Digest, data []byte) error {
	if in.has(name) {
		return nil
	}
	made, err := in.store.in.PutBlob(name, data, storage.UntilPowerLoss)
	if err == nil {
		in.keepBlob(name, made)
	}
	return err
}

func (in *ingestion) has(name spec.Digest) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	_, ok := in.stored[name]
	return ok
}

func (in *ingestion) keepBlob(name spec.Digest, made *storage.BlobInfo) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.stored[name] = made
	in.unflushed = append(in.unflushed, name)
}

// withdraw removes the blobs that the ingestion has made, unless somebody else has begun
// to use them: what was not collected as a whole only takes up room.
func (in *ingestion) withdraw() error {
	return in.store.in.SweepBlobs(func(remove func(spec.Digest) error) error {
		for name, made := range in.stored {
			if made == nil {
				continue
			}
			now, err := in.store.in.StatBlob(name)
			if err != nil || !made.Untouched(now) {
				continue
			}
			if err := remove(name); err != nil {
				return err
			}
		}
		return nil
	})
}

// large stores a file through a temporary file, hashing what it writes. A file
// that may be the base's is first only hashed.
func (in *ingestion) large(ctx context.Context, src *os.File, f found) (Entry, error) {
	old := f.old
	if old.SHA256 != "" && old.Size == f.size {
		h := sha256.New()
		n, err := storage.Copy(ctx, h, src)
		if err != nil {
			return Entry{}, err
		}
		if digestFrom(h) == old.SHA256 {
			return Entry{SHA256: old.SHA256, Size: n}, nil
		}
		if n > in.store.limits.FileBytes {
			return Entry{}, tooLarge(f.path, n, in.store.limits.FileBytes)
		}
		if _, err := src.Seek(0, io.SeekStart); err != nil {
			return Entry{}, err
		}
	}
	return in.stream(ctx, src, f)
}

func (in *ingestion) stream(ctx context.Context, src io.Reader, f found) (e Entry, err error) {
	temp, err := in.store.in.NewBlob()
	if err != nil {
		return e, err
	}
	defer temp.Close() //nolint:errcheck // what is left is swept away later
	limit := in.store.limits.FileBytes
	h := sha256.New()
	scan := in.secrets.Scanner()
	e.Size, err = storage.Copy(ctx, io.MultiWriter(h, scan, temp), io.LimitReader(src, limit+1))
	if err != nil {
		return e, err
	}
	e.SHA256 = digestFrom(h)
	switch {
	case e.SHA256 == f.old.SHA256:
		return e, nil
	case e.Size > limit:
		return e, tooLarge(f.path, e.Size, limit)
	case scan.Found():
		return e, holdsSecret(f.path)
	case in.has(e.SHA256):
		return e, nil
	}
	made, err := temp.Commit(ctx, e.SHA256)
	if err == nil {
		in.keepBlob(e.SHA256, made)
	}
	return e, err
}

// flush makes what was stored outlive a power loss. documents are those of the blobs
// that are likely to be stored again soon.
func (in *ingestion) flush(documents ...spec.Digest) error {
	if len(in.unflushed) == 0 {
		return nil
	}
	if err := in.store.in.FlushBlobs(in.unflushed); err != nil {
		return fmt.Errorf("flush the store: %w", err)
	}
	for _, name := range documents {
		in.store.NoteDurable(name)
	}
	return nil
}
