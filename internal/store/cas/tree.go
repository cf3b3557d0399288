package cas

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/diskspace"
)

// Tree is a directory tree. Its directories are read from the store when they are needed, and
// verified. It must not be used concurrently. Errors are those of [Store.Blob], and name the
// directory.
type Tree struct {
	in  *Store
	top *treeDir
}

// Tree opens a tree. If the blob is not a tree, the error is [session.ErrNotFound].
func (s *Store) Tree(ctx context.Context, name spec.Digest) (*Tree, error) {
	t := &Tree{s, &treeDir{blob: name, stored: true}}
	return t, t.read(ctx, t.top, ".")
}

func (s *Store) emptyTree() *Tree {
	t := &Tree{s, &treeDir{read: true}}
	t.top.owner = t
	return t
}

// copied returns a copy of the tree. Changes of the copy do not affect the original.
func (t *Tree) copied() *Tree { return &Tree{t.in, t.top} }

// read reads a directory, which is at this path of the tree.
func (t *Tree) read(ctx context.Context, d *treeDir, at string) error {
	if d.read {
		return nil
	}
	err := t.in.load(ctx, d)
	if err == nil {
		err = t.in.checkAt(d, at)
	}
	if err != nil && at != "." {
		return fmt.Errorf("read directory %q of a tree: %w", at, err)
	}
	if err != nil {
		return fmt.Errorf("read a tree: %w", err)
	}
	return nil
}

// fetch reads all directories, level by level, and brings their blobs and those of the files to this host.
func (t *Tree) fetch(ctx context.Context) error {
	type dir struct {
		*treeDir
		at string
	}
	var files []spec.Digest
	for level := []dir{{t.top, "."}}; len(level) > 0; {
		var unread []spec.Digest
		for _, d := range level {
			if !d.read {
				unread = append(unread, d.blob)
			}
		}
		if err := t.in.backend.Fetch(ctx, unread); err != nil {
			return err
		}
		var next []dir
		for _, d := range level {
			if err := t.read(ctx, d.treeDir, d.at); err != nil {
				return err
			}
			for _, e := range d.entries {
				if e.sub != nil {
					next = append(next, dir{e.sub, below(d.at, e.name)})
				} else if e.SHA256 != "" {
					files = append(files, e.SHA256)
				}
			}
		}
		level = next
	}
	return t.in.backend.Fetch(ctx, files)
}

// Files returns the number of files and links.
func (t *Tree) Files() int { return t.top.sum().files }

// Bytes returns the total size of the files.
func (t *Tree) Bytes() int64 { return t.top.sum().bytes }

// sum returns the totals of a directory. It recomputes those of changed directories.
func (d *treeDir) sum() totals {
	if d.blob == "" {
		var sum totals
		for _, e := range d.entries {
			if e.sub != nil {
				e.sub.sum()
			}
			sum = sum.plus(e.totals())
		}
		d.totals = sum
	}
	return d.totals
}

// find returns the entry at a path; nil if there is none.
func (t *Tree) find(ctx context.Context, p string) (*dirEntry, error) {
	if p == "." {
		return &dirEntry{sub: t.top}, nil
	}
	d, at := t.top, "."
	for rest := p; ; {
		if err := t.read(ctx, d, at); err != nil {
			return nil, err
		}
		name, below, deeper := strings.Cut(rest, "/")
		e := d.entry(name)
		if e == nil || !deeper {
			return e, nil
		}
		if e.sub == nil {
			return nil, nil //nolint:nilnil // nothing is below a file
		}
		d, at, rest = e.sub, path.Join(at, name), below
	}
}

// Get returns the file or link at a path; ok is false if there is none.
func (t *Tree) Get(ctx context.Context, p string) (_ Entry, ok bool, err error) {
	e, err := t.find(ctx, p)
	if err != nil || e == nil || e.sub != nil {
		return Entry{}, false, err
	}
	return e.Entry, true, nil
}

// subdir returns the directory at a path whose parent was read; nil if there is none.
func (t *Tree) subdir(ctx context.Context, above *treeDir, p string) (*treeDir, error) {
	e := above.entry(path.Base(p))
	if e == nil || e.sub == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	return e.sub, t.read(ctx, e.sub, p)
}

// walk visits the files and links at and below a path, directory by directory, each sorted by
// name. It stops at the first error of reading or of visit.
func (t *Tree) walk(ctx context.Context, at string, visit func(p string, e Entry) error) error {
	e, err := t.find(ctx, at)
	if err != nil || e == nil {
		return err
	}
	if e.sub == nil {
		return visit(at, e.Entry)
	}
	return t.walkDir(ctx, e.sub, at, visit)
}

func (t *Tree) walkDir(ctx context.Context, d *treeDir, at string, visit func(p string, e Entry) error) error {
	if err := t.read(ctx, d, at); err != nil {
		return err
	}
	for _, e := range d.entries {
		p := below(at, e.name)
		var err error
		if e.sub != nil {
			err = t.walkDir(ctx, e.sub, p, visit)
		} else {
			err = visit(p, e.Entry)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// below joins a directory's path and a name.
func below(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

// Manifest returns all files and links of the tree.
func (t *Tree) Manifest(ctx context.Context) (Manifest, error) {
	m := make(Manifest, t.Files())
	err := t.walk(ctx, ".", func(p string, e Entry) error {
		m[p] = e
		return nil
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// apply applies a delta, deletions first. If a path of the delta cannot coexist with one of the
// tree (a file where the other needs a directory), the delta's path replaces it.
func (t *Tree) apply(ctx context.Context, d Delta) error {
	for _, p := range d.Deleted() {
		if err := t.remove(ctx, p); err != nil {
			return err
		}
	}
	for _, p := range d.Changed() {
		if err := t.set(ctx, p, d[p].Entry); err != nil {
			return err
		}
	}
	return nil
}

// set puts a file or link at a path and removes entries that cannot coexist with it.
func (t *Tree) set(ctx context.Context, p string, e Entry) error {
	return t.change(ctx, p, &e)
}

// setAll sets entries. No entry may be below another.
func (t *Tree) setAll(ctx context.Context, m Manifest) error {
	for p, e := range m.sorted() {
		if err := t.set(ctx, p, e); err != nil {
			return err
		}
	}
	return nil
}

// remove removes the file or link at a path.
func (t *Tree) remove(ctx context.Context, p string) error {
	return t.change(ctx, p, nil)
}

// change replaces what is at a path by a file or link; nil removes one.
func (t *Tree) change(ctx context.Context, p string, to *Entry) error {
	top, err := t.changeIn(ctx, t.top, ".", p, to)
	if err == nil && top != nil {
		t.top = top
	}
	return err
}

// changeIn returns the changed directory; nil if nothing changes.
func (t *Tree) changeIn(ctx context.Context, d *treeDir, at, rest string, to *Entry) (*treeDir, error) {
	if err := t.read(ctx, d, at); err != nil {
		return nil, err
	}
	name, below, deeper := strings.Cut(rest, "/")
	i, has := d.index(name)
	var was dirEntry
	if has {
		was = d.entries[i]
	}
	is, stays := was, was.sub != nil
	switch {
	case deeper:
		sub := was.sub
		if sub == nil {
			sub = &treeDir{read: true, owner: t}
		}
		changed, err := t.changeIn(ctx, sub, path.Join(at, name), below, to)
		if changed == nil || err != nil {
			return nil, err
		}
		is, stays = dirEntry{sub: changed}, len(changed.entries) > 0
	case to != nil:
		is, stays = dirEntry{Entry: *to}, true
	}
	if !deeper && has == stays && is.sub == was.sub && is.Entry == was.Entry {
		return nil, nil //nolint:nilnil // nothing changes
	}
	is.name = name
	d = t.owned(d)
	switch {
	case has && stays:
		d.entries[i] = is
	case has:
		d.entries = slices.Delete(d.entries, i, i+1)
	case stays:
		d.entries = slices.Insert(d.entries, i, is)
	}
	return d, nil
}

// owned returns a version of the directory that the tree may change.
func (t *Tree) owned(d *treeDir) *treeDir {
	if d.owner != t {
		c := *d
		c.owner, c.entries = t, slices.Clone(d.entries)
		d = &c
	}
	d.blob, d.stored, d.data = "", false, nil
	return d
}

// digest returns the digest of a directory. It computes those of changed directories.
func (d *treeDir) digest() spec.Digest {
	if d.blob == "" {
		for _, e := range d.entries {
			if e.sub != nil {
				e.sub.digest()
			}
		}
		d.sum()
		d.encode()
	}
	return d.blob
}

// store stores a directory that is not stored yet, after everything that it refers to.
func (d *treeDir) store(ctx context.Context, put func(ctx context.Context, name spec.Digest, data []byte) error) error {
	d.digest()
	if d.stored {
		return nil
	}
	for _, e := range d.entries {
		if e.sub == nil {
			continue
		}
		if err := e.sub.store(ctx, put); err != nil {
			return err
		}
	}
	if len(d.data) > maxDirBlob {
		return fmt.Errorf("a directory of %d files has a list of more than %d bytes; divide it", len(d.entries), maxDirBlob)
	}
	if err := put(ctx, d.blob, d.data); err != nil {
		return err
	}
	d.stored, d.data = true, nil
	return nil
}

// putTree stores a tree durably. The blobs that it refers to must be durable already.
func (s *Store) putTree(ctx context.Context, t *Tree) (_ spec.Digest, err error) {
	batch, err := s.backend.NewBatch()
	if err == nil {
		defer func() { err = errors.Join(err, batch.Close()) }()
		err = t.top.store(ctx, func(ctx context.Context, name spec.Digest, data []byte) error {
			err := batch.Put(ctx, name, data)
			if diskspace.IsFull(err) { // it may use the reserve
				err = s.backend.PutBlob(ctx, name, data)
			}
			return errors.Join(err, ctx.Err())
		})
	}
	if err == nil {
		err = batch.Commit(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("store a tree: %w", err)
	}
	return t.top.blob, nil
}
