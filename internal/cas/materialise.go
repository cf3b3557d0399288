package cas

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/maestro-hive/maestro/internal/bounded"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// The modes of what is materialised.
const (
	plainMode      fs.FileMode = 0o644
	executableMode fs.FileMode = 0o755
)

// Materialise makes dir hold exactly the manifest's files and links, with modes
// 0644 and 0755. Whatever else was there is removed; files of a remembered
// directory that are as an earlier Materialise left them stay. No link is followed, and no file is shared
// with the store. Contents are verified while they are copied: a damaged blob is
// [session.ErrCorrupt], a missing one [session.ErrNotFound]; what was there and cannot be
// removed is a [*failures.Failure] of category invalid_output. With an error, the
// directory holds something between before and after.
func (s *Store) Materialise(ctx context.Context, manifest spec.Digest, dir string) error {
	err := s.materialise(ctx, manifest, dir)
	var refused *RefusedError
	if errors.As(err, &refused) {
		return failures.Failf(failures.InvalidOutput, "%s", textfmt.Shorten(refused.Error(), session.MaxMessage))
	}
	if err != nil {
		return fmt.Errorf("fill %s: %w", dir, err)
	}
	return nil
}

func (s *Store) materialise(ctx context.Context, manifest spec.Digest, dir string) (err error) {
	m, err := s.Manifest(ctx, manifest)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	root, err := makeTop(dir)
	if err != nil {
		return err
	}
	defer closing(root, &err)
	before := s.loadIndex(dir, s.in)
	if err := s.DropIndex(dir); err != nil {
		return err
	}
	f := &filling{store: s, root: root, want: m, dirs: m.Dirs(), before: before, seen: make(map[string]stamp, len(m))}
	if err := f.clear(ctx, root, "."); err != nil {
		return ofTree(".", "cleared for the next attempt", err)
	}
	if err := f.fill(ctx); err != nil {
		return err
	}
	if len(m) < s.indexFrom {
		return nil
	}
	if _, trusted := fileClock(root); trusted && awaitTick(f.latest) {
		x := newIndex(manifest)
		for p, st := range f.seen {
			x.add(p, st, m[p].SHA256)
		}
		s.saveIndex(dir, x)
	}
	return nil
}

// Fill writes the manifest's files and links into an empty directory, as Materialise does.
// instead, if not nil, is called for each file, by several goroutines: where it reports
// true, it has made the file in another way.
func (s *Store) Fill(ctx context.Context, m Manifest, dir string, instead func(p string) bool) (err error) {
	root, err := openDir(dir)
	if err != nil {
		return err
	}
	defer closing(root, &err)
	f := &filling{store: s, root: root, want: m, dirs: m.Dirs(), instead: instead}
	if err := f.fill(ctx); err != nil {
		return fmt.Errorf("fill %s: %w", dir, err)
	}
	return nil
}

// makeTop opens the directory to fill. What has taken its place is removed.
func makeTop(dir string) (_ *os.Root, err error) {
	if err := os.MkdirAll(filepath.Dir(dir), dirMode); err != nil {
		return nil, err
	}
	above, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return nil, err
	}
	defer closing(above, &err)
	name := filepath.Base(dir)
	info, err := above.Lstat(name)
	if err == nil && !info.IsDir() {
		if err := above.Remove(name); err != nil {
			return nil, err
		}
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = above.Mkdir(name, executableMode)
	}
	if err == nil {
		err = above.Chmod(name, executableMode)
	}
	if err != nil {
		return nil, err
	}
	return openDir(dir)
}

// Dirs lists the directories that the manifest's paths need.
func (m Manifest) Dirs() map[string]struct{} {
	dirs := make(map[string]struct{}, len(m)/8)
	for p := range m {
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			if _, ok := dirs[dir]; ok {
				break
			}
			dirs[dir] = struct{}{}
		}
	}
	return dirs
}

// filling makes a directory hold a manifest.
type filling struct {
	store *Store
	// from has the contents while files are written.
	from storage.BlobReader
	root *os.Root
	want Manifest
	// dirs are the directories that are needed and do not exist yet.
	dirs   map[string]struct{}
	before *index
	// instead makes a file in another way, and reports whether it did; nil: it never does.
	instead func(p string) bool

	mu sync.Mutex
	// seen holds the files that are as wanted, latest the latest time of a
	// change among them, in nanoseconds; nil: nobody asks.
	seen   map[string]stamp
	latest int64
}

// clear removes everything that does not stay.
func (f *filling) clear(ctx context.Context, root *os.Root, dir string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := list(root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		p := path.Join(dir, e.Name())
		_, needed := f.dirs[p]
		switch {
		case e.IsDir() && needed:
			err = f.clearBelow(ctx, root, p, e)
		case f.stays(p, e):
		default:
			err = bounded.RemoveAll(root, e.Name())
		}
		if err != nil {
			return fmt.Errorf("clear %q: %w", p, err)
		}
	}
	return nil
}

func (f *filling) clearBelow(ctx context.Context, root *os.Root, p string, info fs.FileInfo) (err error) {
	sub, err := openSubdir(root, path.Base(p), info, true)
	if err != nil {
		return err
	}
	defer closing(sub, &err)
	if info.Mode() != fs.ModeDir|executableMode {
		if err := root.Chmod(path.Base(p), executableMode); err != nil {
			return err
		}
	}
	delete(f.dirs, p)
	return f.clear(ctx, sub, p)
}

// stays reports whether what is there is a file that was materialised from the
// wanted content and has not been touched since.
func (f *filling) stays(p string, info fs.FileInfo) bool {
	want, ok := f.want[p]
	if !ok || want.Link != "" || info.Mode() != want.mode() {
		return false
	}
	st, ok := stampOf(info)
	if !ok {
		return false
	}
	digest, ok := f.before.known(p, st)
	if !ok || digest != want.SHA256 {
		return false
	}
	f.note(p, st)
	return true
}

func (f *filling) note(p string, st stamp) {
	if f.seen == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[p] = st
	f.latest = max(f.latest, st.Changed)
}

// mode is the mode that an entry's file gets.
func (e Entry) mode() fs.FileMode {
	if e.Executable {
		return executableMode
	}
	return plainMode
}

// fill writes what is missing: directories, then files, then links, so that no
// file is ever written through a link.
func (f *filling) fill(ctx context.Context) (err error) {
	f.from = f.store.in.BlobReader()
	defer closing(f.from, &err)
	for _, dir := range slices.Sorted(maps.Keys(f.dirs)) {
		if err := makeSubdir(f.root, dir); err != nil {
			return err
		}
	}
	var links []string
	batches := map[string][]string{}
	for p, e := range f.want {
		if e.Link != "" {
			links = append(links, p)
		} else if _, ok := f.seen[p]; !ok {
			batches[path.Dir(p)] = append(batches[path.Dir(p)], p)
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(Workers())
	for _, dir := range slices.Sorted(maps.Keys(batches)) { // as contents are packed
		files := batches[dir]
		slices.Sort(files)
		for chunk := range slices.Chunk(files, batchSize) {
			g.Go(func() error { return f.batch(gctx, dir, chunk) })
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, p := range links {
		if err := f.root.Symlink(f.want[p].Link, p); err != nil {
			return err
		}
	}
	return nil
}

func makeSubdir(root *os.Root, dir string) error {
	if err := root.Mkdir(dir, executableMode); err != nil {
		return err
	}
	info, err := root.Lstat(dir)
	if err == nil && info.Mode().Perm() != executableMode { // the umask
		err = root.Chmod(dir, executableMode)
	}
	return err
}

// batch writes files of one directory.
func (f *filling) batch(ctx context.Context, dir string, files []string) (err error) {
	root, err := f.root.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer closing(root, &err)
	for _, p := range files {
		if f.instead != nil && f.instead(p) {
			continue
		}
		info, err := f.store.writeFile(ctx, f.from, root, path.Base(p), f.want[p])
		if err != nil {
			return fmt.Errorf("write %q: %w", p, err)
		}
		if st, ok := stampOf(info); ok {
			f.note(p, st)
		}
	}
	return nil
}

// writeFile makes a new file of an entry in a directory and returns what it is
// then. The content is verified.
func (s *Store) writeFile(ctx context.Context, from opener, dir *os.Root, name string, e Entry) (_ fs.FileInfo, err error) {
	src, err := s.openBlob(from, e.SHA256)
	if err != nil {
		return nil, err
	}
	defer src.Close() //nolint:errcheck // only read
	// Without O_NONBLOCK, which has no effect here, package os sets it in vain.
	dst, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NONBLOCK, e.mode())
	if err != nil {
		return nil, err
	}
	defer closing(dst, &err)
	digest, n, err := s.copyFile(ctx, dst, src, e.Size)
	if err != nil {
		return nil, err
	}
	if digest != e.SHA256 {
		return nil, s.quarantineBlob(ctx, e.SHA256)
	}
	if n != e.Size {
		return nil, fmt.Errorf("%w manifest: it has %[3]d bytes for blob %[2]s, which has %[4]d", session.ErrCorrupt, e.SHA256.Short(), e.Size, n)
	}
	info, err := dst.Stat()
	if err != nil || info.Mode() == e.mode() {
		return info, err
	}
	if err := dst.Chmod(e.mode()); err != nil { // the umask
		return nil, err
	}
	return dst.Stat()
}

// copyFile copies a blob's file and returns digest and size of what it copied.
// Large files share their blocks where the file system can do that.
func (s *Store) copyFile(ctx context.Context, dst *os.File, src io.Reader, size int64) (spec.Digest, int64, error) {
	blob := src
	if size < storage.BufferSize {
		buf, release := storage.Buffer()
		defer release()
		n, err := io.ReadFull(src, buf)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			_, err = dst.Write(buf[:n])
			return DigestOf(buf[:n]), int64(n), err
		}
		if err != nil {
			return "", 0, err
		}
		src = io.MultiReader(bytes.NewReader(buf), src) // longer than expected
	}
	h := sha256.New()
	var w io.Writer = h
	if f, ok := blob.(*os.File); !ok || !clone(dst, f) {
		w = io.MultiWriter(h, dst)
	}
	n, err := storage.Copy(ctx, w, src)
	return digestFrom(h), n, err
}
