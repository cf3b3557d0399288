package cas

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Names of files that contain keys and passwords, in lower case: .env.local, id_rsa.pub,
// server.pem.
var (
	privateNames    = []string{".env", ".netrc", ".pgpass", ".git-credentials", ".htpasswd"}
	privatePrefixes = []string{".env.", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"}
	privateSuffixes = []string{".env", ".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx"}
)

// privateDirs are the names of directories that contain keys and passwords.
var privateDirs = []string{".ssh", ".aws", ".gnupg"}

// SnapshotOptions configures a snapshot.
type SnapshotOptions struct {
	// Ignore lists gitignore patterns in addition to the workspace's own.
	Ignore []string
	// Include lists patterns of files that are included although they are ignored, or their names
	// suggest that they contain keys.
	Include []string
	// Tracked lists paths that are included although the workspace's own rules ignore them, or their names suggest that
	// they contain keys, but not if Ignore excludes them.
	Tracked []string
	// Beneath has gitignore patterns with a lower priority than those of the workspace.
	Beneath string
}

// Snapshot is the result of [Store.Snapshot].
type Snapshot struct {
	Manifest spec.Digest
	// Files counts the files and links, and Bytes is the total size of the files.
	Files int
	Bytes int64
	// Private lists paths that were left out because their names suggest that they contain keys;
	// Ignored lists ignored paths. Paths of directories end in a slash.
	Private, Ignored []string
	// Odd lists what no tree can hold, with the reasons: links that lead out, sockets and the like.
	Odd []string
}

// LeftOut lists what was left out in sentences, as far as a person should know; empty: nothing.
func (s Snapshot) LeftOut() (notes []string) {
	for _, left := range []struct {
		why   string
		paths []string
	}{
		{"because they look like secrets", s.Private}, {"because they cannot be kept", s.Odd}, {"because they are ignored", s.Ignored},
	} {
		if len(left.paths) > 0 {
			notes = append(notes, session.LeftOutNote(left.why, left.paths))
		}
	}
	return notes
}

// Snapshot stores a directory as a manifest, by the rules of [Store.Collect]. Files whose names
// suggest that they contain keys are left out, and so is a store. What no tree can hold is
// left out, too. A [*RefusedError] names a limit that is exceeded. The directory is only read.
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
	left := &leftOut{}
	sc := &scanner{
		top: root, limits: s.options.Limits, wanted: o.Include, base: s.emptyTree(),
		extra: parseIgnore(nil, ".", strings.Join(o.Ignore, "\n")),
		left:  left, roots: []string{dir}, beneath: parseIgnore(nil, ".", o.Beneath),
	}
	for _, p := range slices.DeleteFunc(slices.Clone(o.Tracked), sc.extra.excludes) {
		if err := sc.base.set(ctx, p, Entry{}); err != nil {
			return snap, err
		}
	}
	if sc.exclude, err = s.private(left, o.Include); err != nil {
		return snap, err
	}
	in := &ingestion{store: s, root: root, secrets: secrets.New(nil)}
	defer func() { err = errors.Join(err, in.close()) }()
	if err := sc.scan(ctx); err != nil {
		return snap, err
	}
	in.files = sc.files
	left.sort()
	snap.Ignored, snap.Private, snap.Odd = left.skipped, left.secret, left.odd
	t, err := in.snapshot(ctx)
	if err != nil {
		return snap, err
	}
	snap.Manifest, snap.Files, snap.Bytes = t.top.digest(), t.Files(), t.Bytes()
	return snap, nil
}

// snapshot stores the found files and their tree.
func (in *ingestion) snapshot(ctx context.Context) (*Tree, error) {
	if err := in.run(ctx); err != nil {
		return nil, err
	}
	t := in.store.TreeOf(in.manifest())
	return t, in.saveTree(ctx, t)
}

// private returns a function that reports whether a snapshot leaves out a path as private. The
// function excludes stores, too.
func (s *Store) private(left *leftOut, include patterns) (func(string, dirItem, bool) bool, error) {
	own, err := os.Stat(s.options.StoreDir)
	if err != nil {
		return nil, err
	}
	return func(p string, now dirItem, had bool) bool {
		if now.mode.IsDir() {
			if now.id == itemOf(own).id {
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

// isPrivate reports whether a file's name, or that of a directory above it, suggests that it
// contains keys.
func isPrivate(p string) bool {
	dir, name := path.Split(p)
	name = strings.ToLower(name)
	return slices.Contains(privateNames, name) ||
		slices.ContainsFunc(privatePrefixes, func(s string) bool { return strings.HasPrefix(name, s) }) ||
		slices.ContainsFunc(privateSuffixes, func(s string) bool { return strings.HasSuffix(name, s) }) ||
		slices.ContainsFunc(privateDirs, func(s string) bool {
			return strings.Contains(dir, s) &&
				strings.Contains("/"+dir, "/"+s+"/")
		})
}
