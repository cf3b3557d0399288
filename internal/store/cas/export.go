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

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// Export writes files and links of a manifest into a directory and returns the paths written,
// sorted. It makes the directory if it does not exist. Each of wanted is a path, a directory or a
// pattern; an empty list selects everything. Other content of the directory is kept. If a path
// exists, the error comes before anything is written, unless overwrite is set. Existing links
// that lead out of the directory are not followed. A selection without a match is
// [session.ErrNotFound].
func (s *Store) Export(ctx context.Context, manifest spec.Digest, wanted []string, dir string, overwrite bool) ([]string, error) {
	m, err := s.Manifest(ctx, manifest)
	if err != nil {
		return nil, err
	}
	paths, err := m.Select(wanted)
	if err != nil {
		return nil, err
	}
	selected := Manifest{}
	for _, p := range paths {
		selected[p] = m[p]
	}
	return paths, s.ExportFiles(ctx, selected, dir, overwrite)
}

// ExportFiles is [Store.Export] for all files and links of a manifest.
func (s *Store) ExportFiles(ctx context.Context, m Manifest, dir string, overwrite bool) (err error) {
	if err := os.MkdirAll(dir, executableMode); err != nil {
		return fmt.Errorf("make the directory to write to: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the directory to write to: %w", err)
	}
	defer closing(root, &err)
	err = clearTargets(root, m.Paths(), overwrite)
	if err == nil {
		err = s.Fetch(ctx, m.blobs()...)
	}
	if err != nil {
		return fmt.Errorf("write to %s: %w", dir, err)
	}
	for p, e := range m.sorted() {
		if err := s.export(ctx, root, p, e); err != nil {
			return fmt.Errorf("write %s: %w", filepath.Join(dir, p), err)
		}
	}
	return nil
}

// clearTargets returns an error for paths that exist, or removes them if overwrite is set.
func clearTargets(root *os.Root, paths []string, overwrite bool) error {
	var existing []string
	for _, p := range paths {
		switch info, err := root.Lstat(p); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case info.IsDir():
			return fmt.Errorf("%s is a directory there but a file in the tree; write to another directory", p)
		default:
			existing = append(existing, p)
		}
	}
	if len(existing) > 0 && !overwrite {
		return fmt.Errorf("%s and %d more already exist; write to another directory, or add --overwrite", existing[0], len(existing)-1)
	}
	for _, p := range existing {
		if err := root.Remove(p); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) export(ctx context.Context, root *os.Root, p string, e Entry) error {
	if err := root.MkdirAll(path.Dir(p), executableMode); err != nil {
		return err
	}
	if e.Link != "" {
		return root.Symlink(e.Link, p)
	}
	return s.writeFile(ctx, root, p, e, e.mode(), func(f *os.File) error { return f.Chmod(e.mode()) })
}

// Select returns the manifest's paths that wanted selects, sorted. Each of wanted is a path, a
// directory or a pattern; an empty list selects everything. A selection without a match is
// [session.ErrNotFound].
func (m Manifest) Select(wanted []string) ([]string, error) { return selectPaths(m.Paths(), wanted) }

func selectPaths(all, wanted []string) ([]string, error) {
	if len(wanted) == 0 {
		return all, nil
	}
	if err := checkPatterns(wanted); err != nil {
		return nil, err
	}
	var out []string
	for _, w := range wanted {
		w = strings.TrimSuffix(strings.TrimPrefix(w, "./"), "/")
		n := len(out)
		for _, p := range all {
			if p == w || w == "." || strings.HasPrefix(p, w+"/") || globMatches(w, p) {
				out = append(out, p)
			}
		}
		if len(out) == n {
			return nil, fmt.Errorf("%q is %w in the tree; list its files with `maestro artifacts list`", w, session.ErrNotFound)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
