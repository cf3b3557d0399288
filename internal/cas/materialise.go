package cas

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/maestro-hive/maestro/internal/bounded"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// The modes of materialised files.
const (
	plainMode      fs.FileMode = 0o644
	executableMode fs.FileMode = 0o755
)

// Materialise makes dir contain exactly the manifest's files and links, with modes 0644 and 0755.
// Everything else is removed first. Links are not followed, and no file is shared with
// the store. Contents are verified while they are copied: a damaged blob is [session.ErrCorrupt],
// a missing one [session.ErrNotFound]. If existing content cannot be removed, the error is a
// [*failures.Failure] of category invalid_output. After an error, the directory is partly
// changed.
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
	if err := want.readAll(ctx, want.top, "."); err != nil { // fail before anything is removed
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
	if err := clearTop(ctx, top); err != nil {
		return ofTree(".", "cleared for the next attempt", err)
	}
	f := &filler{store: s, root: top.Root, want: want}
	return f.fill(ctx)
}

// Fill writes a tree's files and links into an empty directory, with the modes of
// [Store.Materialise]. It returns the disk space of the files and directories, in bytes. All of
// them get the owner; nil: the caller.
func (s *Store) Fill(ctx context.Context, want *Tree, dir string, o *Owner) (_ int64, err error) {
	top, err := openTop(dir)
	if err != nil {
		return 0, err
	}
	defer closing(top, &err)
	f := &filler{store: s, root: top.Root, want: want, owner: o}
	if err := f.fill(ctx); err != nil {
		return 0, fmt.Errorf("fill %s: %w", dir, err)
	}
	return f.blocks * block, nil
}

// makeTop opens the directory to fill. It removes anything else at that path, and creates the
// directory if it does not exist.
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

// filler writes a tree into a directory.
type filler struct {
	store *Store
	root  *os.Root
	want  *Tree
	// owner gets what is written; nil: the caller.
	owner *Owner
	// links are the links to be created after the files.
	links []link
	// blocks counts the disk blocks of everything.
	blocks int64
}

// link is a link to be created.
type link struct{ at, to string }

// block is the size of a disk block, in bytes.
const block = 4096

// clearTop removes everything in a directory.
func clearTop(ctx context.Context, top directory) error {
	entries, err := top.list()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := errors.Join(ctx.Err(), bounded.RemoveAll(top.Root, e.name)); err != nil {
			return fmt.Errorf("clear %q: %w", e.name, err)
		}
	}
	return nil
}

// mode returns the mode of the entry's file.
func (e Entry) mode() fs.FileMode {
	if e.Executable {
		return executableMode
	}
	return plainMode
}

// fill writes what is missing: directories, then files, then links. So no file is written through
// a link.
func (f *filler) fill(ctx context.Context) error {
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
		if err := f.owner.chownIn(f.root, l.at); err != nil {
			return err
		}
	}
	return nil
}

// dir makes a directory and those below it, and starts the goroutines that write their files.
func (f *filler) dir(ctx context.Context, g *errgroup.Group, d *treeDir, at string) error {
	if err := f.want.read(ctx, d, at); err != nil {
		return err
	}
	if at != "." {
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
	if err == nil && info.Mode().Perm() != executableMode { // the umask cleared bits
		err = root.Chmod(dir, executableMode)
	}
	if err != nil {
		return err
	}
	return o.chownIn(root, dir)
}

// batch writes the files of a batch of entries of one directory.
func (f *filler) batch(ctx context.Context, at string, entries []dirEntry) (err error) {
	dir, err := openDirectory(f.root, at)
	if err != nil {
		return err
	}
	defer closing(dir, &err)
	into := &fileCreator{directory: dir, owner: f.owner}
	for i := range entries {
		e := &entries[i]
		if err := ctx.Err(); err != nil {
			return err
		}
		if e.sub != nil || e.Link != "" {
			continue
		}
		if err := f.store.writeFile(ctx, into, e.name, e.Entry); err != nil {
			return fmt.Errorf("write %q: %w", below(at, e.name), err)
		}
	}
	return nil
}

// writeFile creates the file of an entry and verifies its content.
func (s *Store) writeFile(ctx context.Context, in *fileCreator, name string, e Entry) (err error) {
	if e.Size >= storage.BufferSize {
		return s.writeLarge(ctx, in, name, e)
	}
	buf, release := storage.Buffer()
	defer release()
	n, err := s.readInto(ctx, e.SHA256, buf)
	switch {
	case errors.Is(err, io.ErrShortBuffer): // larger than the entry says
		return s.writeLarge(ctx, in, name, e)
	case err != nil:
		return err
	case int64(n) != e.Size:
		return wrongSize(e, int64(n))
	}
	dst, err := in.create(name, e.mode())
	if err != nil {
		return err
	}
	defer closing(dst, &err)
	if _, err := dst.Write(buf[:n]); err != nil {
		return err
	}
	return in.finish(dst, e.mode())
}

// writeLarge is writeFile for a file that does not fit into a buffer.
func (s *Store) writeLarge(ctx context.Context, in *fileCreator, name string, e Entry) (err error) {
	src, err := s.openBlob(e.SHA256)
	if err != nil {
		return err
	}
	defer src.Close() //nolint:errcheck // only read
	dst, err := in.create(name, e.mode())
	if err != nil {
		return err
	}
	defer closing(dst, &err)
	digest, n, err := copyFile(ctx, dst, src)
	switch {
	case err != nil:
		return err
	case digest != e.SHA256:
		return s.moveDamaged(ctx, e.SHA256)
	case n != e.Size:
		return wrongSize(e, n)
	}
	return in.finish(dst, e.mode())
}

func wrongSize(e Entry, n int64) error {
	return fmt.Errorf("%w manifest: it has %[3]d bytes for blob %[2]s, which has %[4]d", session.ErrCorrupt, e.SHA256.Short(), e.Size, n)
}

// copyFile copies a blob to a file and returns digest and size of the content. The files share
// disk blocks if the file system supports that.
func copyFile(ctx context.Context, dst openFile, src io.Reader) (spec.Digest, int64, error) {
	h := sha256.New()
	var w io.Writer = h
	if f, ok := src.(*os.File); !ok || !clone(dst.Fd(), f.Fd()) {
		w = io.MultiWriter(h, dst)
	}
	n, err := storage.Copy(ctx, w, src)
	return digestFrom(h), n, err
}
