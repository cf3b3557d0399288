package cas

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"

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
	want, err := s.Tree(ctx, manifest)
	if err != nil {
		return err
	}
	if err := want.readAll(ctx, want.top, "."); err != nil { // before anything is removed
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	top, err := makeTop(dir)
	if err != nil {
		return err
	}
	defer closing(top, &err)
	before := s.loadIndex(dir, s.in)
	if err := s.DropIndex(dir); err != nil {
		return err
	}
	f := &filling{store: s, root: top.Root, want: want, before: before, there: map[*treeDir]struct{}{}, seen: make(map[string]indexed, want.Files())}
	if err := f.clear(ctx, top, ".", want.top); err != nil {
		return ofTree(".", "cleared for the next attempt", err)
	}
	if err := f.fill(ctx); err != nil {
		return err
	}
	if want.Files() < s.indexFrom {
		return nil
	}
	if clockOf(top) != 0 && awaitTick(f.latest) {
		dirs := map[string][]indexed{}
		for p, file := range f.seen {
			at, name := splitPath(p)
			dirs[at] = append(dirs[at], indexed{name, file.digest, file.stamp})
		}
		s.saveIndex(dir, encodeIndex(manifest, want.Files(), dirs))
	}
	return nil
}

// Fill writes a tree's files and links into an empty directory, as Materialise does, and returns
// what they take up there with their directories, in bytes. All of it is for the owner; nil: the
// caller.
// instead, if not nil, is called for each file, by several goroutines: where it reports
// true, it has made the file in another way.
func (s *Store) Fill(ctx context.Context, want *Tree, dir string, o *Owner, instead func(p string) bool) (_ int64, err error) {
	top, err := openTop(dir)
	if err != nil {
		return 0, err
	}
	defer closing(top, &err)
	f := &filling{store: s, root: top.Root, want: want, owner: o, instead: instead}
	if err := f.fill(ctx); err != nil {
		return 0, fmt.Errorf("fill %s: %w", dir, err)
	}
	return f.blocks * block, nil
}

// makeTop opens the directory to fill. What has taken its place is removed.
func makeTop(dir string) (top directory, err error) {
	if err := os.MkdirAll(filepath.Dir(dir), dirMode); err != nil {
		return top, err
	}
	above, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return top, err
	}
	defer closing(above, &err)
	name := filepath.Base(dir)
	info, err := above.Lstat(name)
	if err == nil && !info.IsDir() {
		if err := above.Remove(name); err != nil {
			return top, err
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
		return top, err
	}
	return openTop(dir)
}

// filling makes a directory hold a tree.
type filling struct {
	store *Store
	// from has the contents while files are written.
	from storage.BlobReader
	root *os.Root
	want *Tree
	// owner is who gets what is written; nil: the caller.
	owner *Owner
	// there are the directories that exist already.
	there  map[*treeDir]struct{}
	before *index
	// instead makes a file in another way, and reports whether it did; nil: it never does.
	instead func(p string) bool
	// links are those to be made.
	links []link
	// blocks is what all of it takes up.
	blocks int64

	mu sync.Mutex
	// seen holds the files that are as wanted, latest the latest time of a
	// change among them, in nanoseconds; nil: nobody asks.
	seen   map[string]indexed
	latest int64
}

// link is a link to be made.
type link struct{ at, to string }

// block is how many bytes of a disk are taken up at a time.
const block = 4096

// clear removes everything that does not stay.
func (f *filling) clear(ctx context.Context, in directory, dir string, want *treeDir) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := in.list()
	if err != nil {
		return err
	}
	before := f.before.in(dir)
	for _, e := range entries {
		p := path.Join(dir, e.name)
		wanted := want.entry(e.name)
		switch {
		case wanted != nil && wanted.sub != nil && e.mode.IsDir():
			err = f.clearBelow(ctx, in, p, e, wanted.sub)
		case wanted != nil && wanted.sub == nil && f.stays(p, e, before, wanted.Entry):
		default:
			err = bounded.RemoveAll(in.Root, e.name)
		}
		if err != nil {
			return fmt.Errorf("clear %q: %w", p, err)
		}
	}
	return nil
}

func (f *filling) clearBelow(ctx context.Context, in directory, p string, now listed, want *treeDir) (err error) {
	sub, err := openListed(in.Root, now, true)
	if err != nil {
		return err
	}
	defer closing(sub, &err)
	if now.mode != fs.ModeDir|executableMode {
		if err := in.Chmod(now.name, executableMode); err != nil {
			return err
		}
	}
	f.there[want] = struct{}{}
	return f.clear(ctx, sub, p, want)
}

// stays reports whether what is there is a file that was materialised from the
// wanted content and has not been touched since.
func (f *filling) stays(p string, now listed, before remembered, want Entry) bool {
	if want.Link != "" || now.mode != want.mode() {
		return false
	}
	digest, ok := before.digest(now)
	if !ok || digest != want.SHA256 {
		return false
	}
	f.note(p, indexed{digest: digest, stamp: now.stamp})
	return true
}

func (f *filling) note(p string, file indexed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[p] = file
	f.latest = max(f.latest, file.stamp.Changed)
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
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(1 + Workers())
	g.Go(func() error { return f.dir(gctx, g, f.want.top, ".") })
	if err := g.Wait(); err != nil {
		return err
	}
	for _, l := range f.links {
		if err := f.root.Symlink(l.to, l.at); err != nil {
			return err
		}
		if err := f.owner.giveIn(f.root, l.at); err != nil {
			return err
		}
	}
	return nil
}

// dir makes a directory and those below it, and has their files written.
func (f *filling) dir(ctx context.Context, g *errgroup.Group, d *treeDir, at string) error {
	if err := f.want.read(ctx, d, at); err != nil {
		return err
	}
	if _, there := f.there[d]; !there && at != "." {
		if err := makeSubdir(f.root, at, f.owner); err != nil {
			return err
		}
	}
	f.blocks++
	for i := range d.entries {
		switch e := &d.entries[i]; {
		case e.sub != nil:
			if err := f.dir(ctx, g, e.sub, below(at, e.name)); err != nil {
				return err
			}
		case e.Link != "":
			f.links = append(f.links, link{below(at, e.name), e.Link})
		default:
			f.blocks += (e.Size + block - 1) / block
		}
	}
	for chunk := range slices.Chunk(d.entries, batchSize) {
		g.Go(func() error { return f.batch(ctx, at, chunk) })
	}
	return nil
}

func makeSubdir(root *os.Root, dir string, o *Owner) error {
	if err := root.Mkdir(dir, executableMode); err != nil {
		return err
	}
	info, err := root.Lstat(dir)
	if err == nil && info.Mode().Perm() != executableMode { // the umask
		err = root.Chmod(dir, executableMode)
	}
	if err != nil {
		return err
	}
	return o.giveIn(root, dir)
}

// is reports whether a file in a directory is as wanted already, or made in another way.
func (f *filling) is(dir, name string) bool {
	if f.instead == nil && f.seen == nil { // spare a name for each file
		return false
	}
	p := below(dir, name)
	if f.instead != nil {
		return f.instead(p)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.seen[p]
	return ok
}

// batch writes the files among entries of one directory.
func (f *filling) batch(ctx context.Context, at string, entries []dirEntry) (err error) {
	dir, err := openDirectory(f.root, at)
	if err != nil {
		return err
	}
	defer closing(dir, &err)
	into := &newFiles{directory: dir, owner: f.owner, stamped: f.seen != nil}
	for i := range entries {
		e := &entries[i]
		if err := ctx.Err(); err != nil {
			return err
		}
		if e.sub != nil || e.Link != "" || f.is(at, e.name) {
			continue
		}
		st, err := f.store.writeFile(ctx, f.from, into, e.name, e.Entry)
		if err != nil {
			return fmt.Errorf("write %q: %w", below(at, e.name), err)
		}
		if f.seen != nil {
			f.note(below(at, e.name), indexed{digest: e.SHA256, stamp: st})
		}
	}
	return nil
}

// writeFile makes a new file of an entry and returns its stamp if that is asked for. The content
// is verified.
func (s *Store) writeFile(ctx context.Context, from storage.BlobReader, in *newFiles, name string, e Entry) (_ stamp, err error) {
	if e.Size >= storage.BufferSize {
		return s.writeLarge(ctx, from, in, name, e)
	}
	buf, release := storage.Buffer()
	defer release()
	n, err := from.ReadBlob(e.SHA256, buf)
	switch {
	case errors.Is(err, io.ErrShortBuffer): // not what the entry says
		return s.writeLarge(ctx, from, in, name, e)
	case err != nil:
		return stamp{}, s.noBlob(e.SHA256, err)
	case !isNamed(e.SHA256, buf[:n]):
		return stamp{}, s.quarantineBlob(ctx, e.SHA256)
	case int64(n) != e.Size:
		return stamp{}, wrongSize(e, int64(n))
	}
	dst, err := in.create(name, e.mode())
	if err != nil {
		return stamp{}, err
	}
	defer closing(dst, &err)
	if _, err := dst.Write(buf[:n]); err != nil {
		return stamp{}, err
	}
	return in.finish(dst, e.mode())
}

// writeLarge is writeFile of a file that is not handled in memory.
func (s *Store) writeLarge(ctx context.Context, from storage.BlobReader, in *newFiles, name string, e Entry) (_ stamp, err error) {
	src, err := s.openBlob(from, e.SHA256)
	if err != nil {
		return stamp{}, err
	}
	defer src.Close() //nolint:errcheck // only read
	dst, err := in.create(name, e.mode())
	if err != nil {
		return stamp{}, err
	}
	defer closing(dst, &err)
	digest, n, err := copyFile(ctx, dst, src)
	switch {
	case err != nil:
		return stamp{}, err
	case digest != e.SHA256:
		return stamp{}, s.quarantineBlob(ctx, e.SHA256)
	case n != e.Size:
		return stamp{}, wrongSize(e, n)
	}
	return in.finish(dst, e.mode())
}

func wrongSize(e Entry, n int64) error {
	return fmt.Errorf("%w manifest: it has %[3]d bytes for blob %[2]s, which has %[4]d", session.ErrCorrupt, e.SHA256.Short(), e.Size, n)
}

// copyFile copies a blob's file and returns digest and size of what it copied. Files share their
// blocks where the file system can do that.
func copyFile(ctx context.Context, dst openFile, src io.Reader) (spec.Digest, int64, error) {
	h := sha256.New()
	var w io.Writer = h
	if f, ok := src.(*os.File); !ok || !clone(dst.Fd(), f.Fd()) {
		w = io.MultiWriter(h, dst)
	}
	n, err := storage.Copy(ctx, w, src)
	return digestFrom(h), n, err
}
