package cli

import (
	"context"
	"os"
	"path/filepath"

	"github.com/maestro-hive/maestro/internal/apply"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/store"
)

// source is the origin of the workspace of a session that is about to start; nil if it
// has none.
func (a *app) source(ctx context.Context, o runOptions) *session.Source {
	if o.workspace == "" {
		return nil
	}
	dir, err := filepath.Abs(o.workspace)
	if err != nil {
		return nil
	}
	return &session.Source{
		Host: a.env.Host, Dir: dir, Include: o.include,
		Commit: apply.Head(ctx, dir, a.environ),
	}
}

// sourceOf is where a session's workspace was taken from, as far as the store
// knows; its zero where it does not.
func sourceOf(s *store.Store, key session.Key) session.Source {
	e, err := s.Execution(key)
	if err != nil || e.Course.Source == nil {
		return session.Source{}
	}
	return *e.Course.Source
}

// absPath is a path that was named, absolute; a relative one is below the working directory.
func absPath(cwd, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(cwd, path)
}

// directory is a place that has to be a directory.
func directory(cwd, flag, dir string) (string, error) {
	dir = absPath(cwd, dir)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", usagef("%s %s is not a readable directory", flag, dir)
	}
	return dir, nil
}
