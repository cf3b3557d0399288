package cas

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/bounded"
	"github.com/maestro-hive/maestro/internal/store/storage"
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
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return failures.Failf(failures.InvalidOutput, "%s", textfmt.Shorten(refused.Error(), session.MaxMessage))
	}
	if err != nil {
		return fmt.Errorf("fill %s: %w", dir, err)
	}
	return nil
}

func (s *Store) materialise(ctx context.Context, manifest spec.Digest, dir string) (err error) {
	want, err := s.Tree(ctx, manifest)
	if err == nil {
		err = want.fetch(ctx) // fail before anything is removed
	}
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), dirMode); err != nil {
		return err
	}
	above, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer closing(above, &err)
	name := filepath.Base(dir)
	if err := bounded.RemoveAll(above, name); err != nil {
		return ofTree(".", "cleared for the next attempt", err)
	}
	if err := makeDir(above, name, nil); err != nil {
		return err
	}
	_, err = s.fill(ctx, want, dir, nil)
	return err
}

// Fill writes a tree's files and links into an empty directory, with the modes of
// [Store.Materialise]. It returns the disk space of the files and directories, in bytes. The
// directory and all in it get the owner; nil: the caller.
func (s *Store) Fill(ctx context.Context, want *Tree, dir string, o *Owner) (int64, error) {
	if err := want.fetch(ctx); err != nil {
		return 0, fmt.Errorf("fill %s: %w", dir, err)
	}
	return s.fill(ctx, want, dir, o)
}

// fill is [Store.Fill] for a tree that was fetched.
func (s *Store) fill(ctx context.Context, want *Tree, dir string, o *Owner) (_ int64, err error) {
	top, err := openTop(dir)
	if err != nil {
		return 0, err
	}
	defer closing(top, &err)
	f := &filler{store: s, root: top, want: want, owner: o}
	if err := errors.Join(o.chown(top, "."), f.fill(ctx)); err != nil {
		return 0, fmt.Errorf("fill %s: %w", dir, err)
	}
	return f.blocks * block, nil
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
	g.SetLimit(1 + workers())
	g.Go(func() error { return f.dir(gctx, g, f.want.top, ".") })
	if err := g.Wait(); err != nil {
		return err
	}
	for _, l := range f.links {
		if err := f.root.Symlink(l.to, l.at); err != nil {
			return err
		}
		if err := f.owner.chown(f.root, l.at); err != nil {
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
		if err := makeDir(f.root, at, f.owner); err != nil {
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
	g.Go(func() error { return f.files(ctx, at, d.entries) })
	return nil
}

// makeDir makes a directory with the mode of a tree's, whatever the umask is.
func makeDir(root *os.Root, dir string, o *Owner) error {
	if err := root.Mkdir(dir, executableMode); err != nil {
		return err
	}
	if err := root.Chmod(dir, executableMode); err != nil {
		return err
	}
	return o.chown(root, dir)
}

// files writes the files of one directory.
func (f *filler) files(ctx context.Context, at string, entries []dirEntry) (err error) {
	dir, err := f.root.OpenRoot(at)
	if err != nil {
		return err
	}
	defer closing(dir, &err)
	for _, e := range entries {
		if e.sub != nil || e.Link != "" {
			continue
		}
		if err := f.store.writeFile(ctx, dir, e.name, e.Entry, e.mode(),
			func(dst *os.File) error { return f.finish(dst, e.mode()) }); err != nil {
			return fmt.Errorf("write %q: %w", below(at, e.name), err)
		}
	}
	return nil
}

// finish sets the owner and the mode of a new file.
func (f *filler) finish(dst *os.File, mode fs.FileMode) error {
	if o := f.owner; o != nil {
		if err := dst.Chown(o.UID, o.GID); err != nil {
			return err
		}
	}
	return dst.Chmod(mode)
}

// writeFile creates the file of an entry, verifies its content, and finishes it.
func (s *Store) writeFile(ctx context.Context, in *os.Root, name string, e Entry, mode fs.FileMode,
	finish func(*os.File) error,
) (err error) {
	src, err := s.openBlob(ctx, e.SHA256)
	if err != nil {
		return err
	}
	defer src.Close() //nolint:errcheck // only read
	dst, err := in.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer closing(dst, &err)
	n, digest, err := storage.Copy(ctx, dst, src)
	switch {
	case err != nil:
		return err
	case digest != e.SHA256:
		return s.moveDamaged(ctx, e.SHA256)
	case n != e.Size:
		return fmt.Errorf("%w manifest: it has %[3]d bytes for blob %[2]s, which has %[4]d", session.ErrCorrupt, e.SHA256.Short(),
			e.Size, n)
	}
	return finish(dst)
}
