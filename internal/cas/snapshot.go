package cas

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/secrets"
	"github.com/maestro-hive/maestro/internal/spec"
)

// Files that hold keys and passwords, by the ends of their names in lower case:
// .env.local, id_rsa.pub, server.pem.
var (
	privateNames    = []string{".env", ".netrc", ".pgpass", ".git-credentials", ".htpasswd"}
	privatePrefixes = []string{".env.", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"}
	privateSuffixes = []string{".env", ".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx"}
)

// privateDirs are the names of directories that hold keys and passwords.
var privateDirs = []string{".ssh", ".aws", ".gnupg"}

// SnapshotOptions says what of a workspace becomes part of a snapshot.
type SnapshotOptions struct {
	// Ignore lists gitignore patterns beyond the workspace's own.
	Ignore []string
	// Include lists patterns of files that are taken although they are
	// ignored, or look as if they held keys.
	Include []string
	// Known lists paths that are taken whatever is ignored: those of a tree that
	// the directory is to be compared with.
	Known []string
}

// Snapshot is a workspace as it was stored.
type Snapshot struct {
	Manifest spec.Digest
	// Files counts the files and links, Bytes the files' content.
	Files int
	Bytes int64
	// Private lists what was left out because its name says that it holds
	// keys; Ignored what was left out as ignored. Directories end in a slash.
	Private, Ignored []string
}

// Snapshot stores a directory as a manifest, by the rules of [Store.Collect].
// Files that look as if they held keys are left out, and so is a store. What
// cannot become part of a tree is a [*RefusedError]. The directory is only read.
func (s *Store) Snapshot(ctx context.Context, dir string, o SnapshotOptions) (Snapshot, error) {
	snap, err := s.snapshot(ctx, dir, o)
	if err != nil {
		return Snapshot{}, fmt.Errorf("take the workspace %s: %w", dir, err)
	}
	return snap, nil
}

func (s *Store) snapshot(ctx context.Context, dir string, o SnapshotOptions) (snap Snapshot, err error) {
	if err := checkPatterns(o.Include); err != nil {
		return snap, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return snap, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return snap, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return snap, err
	}
	defer closing(root, &err)
	top, err := enter(root)
	if err != nil {
		return snap, err
	}
	defer closing(top, &err)
	left := &leftOut{}
	sc := &scanner{
		top: top, limits: s.limits, wanted: o.Include,
		base:  s.emptyTree(),
		extra: parseIgnore(nil, ".", strings.Join(o.Ignore, "\n")), skipped: left.ignored, beside: &errgroup.Group{}, index: s.loading(dir),
	}
	sc.beside.SetLimit(8 * Workers()) // more than can work, because who lists a directory hands out no others
	for _, p := range o.Known {
		if err := sc.base.set(ctx, p, Entry{}); err != nil {
			return snap, err
		}
	}
	if sc.leaveOut, err = s.private(left, o.Include); err != nil {
		return snap, err
	}
	clock := clockOf(top)
	found, err := sc.scan(ctx)
	if err != nil {
		return snap, err
	}
	snap.Ignored, snap.Private = left.sorted()
	before := sc.index()
	if before.isAll(found) {
		snap.Manifest, snap.Files, snap.Bytes = before.manifest, found.count(), sc.bytes.Load()
		return snap, nil
	}
	in := &ingestion{store: s, root: root, files: found.all(), secrets: secrets.New(nil), clock: clock}
	defer func() { err = errors.Join(err, in.close()) }()
	t, err := in.snapshot(ctx, dir, before)
	if err != nil {
		return snap, err
	}
	snap.Manifest, snap.Files, snap.Bytes = t.top.name(), t.Files(), t.Bytes()
	return snap, nil
}

// snapshot stores what was found in a directory of which before was remembered, and remembers it.
func (in *ingestion) snapshot(ctx context.Context, dir string, before *index) (*Tree, error) {
	if err := in.run(ctx); err != nil {
		return nil, err
	}
	t := in.tree()
	manifest := t.top.name()
	encoded := make(chan []byte, 1)
	go func() { encoded <- in.encoded(manifest, before) }()
	var known *treeDir
	if before != nil {
		known = &treeDir{blob: before.manifest}
	}
	if err := in.saveTree(ctx, t, known); err != nil {
		return nil, err
	}
	in.store.saveIndex(dir, <-encoded)
	return t, nil
}

// leftOut is what a snapshot leaves out.
type leftOut struct {
	mu              sync.Mutex
	skipped, secret []string
}

func (l *leftOut) ignored(p string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.skipped = append(l.skipped, p)
}

func (l *leftOut) private(p string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.secret = append(l.secret, p)
}

func (l *leftOut) sorted() (ignored, private []string) {
	slices.Sort(l.skipped)
	slices.Sort(l.secret)
	return l.skipped, l.secret
}

// private returns what tells which files a snapshot leaves out as private. It
// leaves out stores as well.
func (s *Store) private(left *leftOut, include patterns) (func(string, listed, bool) bool, error) {
	var own unix.Stat_t
	if err := unix.Stat(s.dir, &own); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: s.dir, Err: err}
	}
	return func(p string, now listed, had bool) bool {
		if now.mode.IsDir() {
			if now.of(stampFrom(&own)) {
				left.ignored(p + "/")
				return true
			}
			if slices.Contains(privateDirs, path.Base(p)) && !include.below(p) && !had {
				left.private(p + "/")
				return true
			}
			return false
		}
		if !isPrivate(p) || include.match(p) || had {
			return false
		}
		left.private(p)
		return true
	}, nil
}

// isPrivate reports whether a file's name says that it holds keys, or it lies in
// a directory of such a name.
func isPrivate(p string) bool {
	dir, name := path.Split(p)
	name = strings.ToLower(name)
	return slices.Contains(privateNames, name) ||
		slices.ContainsFunc(privatePrefixes, func(s string) bool { return strings.HasPrefix(name, s) }) ||
		slices.ContainsFunc(privateSuffixes, func(s string) bool { return strings.HasSuffix(name, s) }) ||
		slices.ContainsFunc(privateDirs, func(s string) bool { return strings.Contains(dir, s) && strings.Contains("/"+dir, "/"+s+"/") })
}
