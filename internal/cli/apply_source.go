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
func (a *app) sourceOf(s *store.Store, key session.Key) session.Source {
	e, err := s.Execution(key)
	if err != nil || e.Course.Source == nil {
		return session.Source{}
	}
	return *e.Course.Source
}

// absPath is a directory that was named, absolute; a relative one is below the
// working directory.
func (a *app) absPath(dir string) string {
	if filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return filepath.Join(a.env.Dir, dir)
}

// directory is a place that has to be a directory.
func (a *app) directory(flag, dir string) (string, error) {
	dir = a.absPath(dir)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", usagef("%s %s is not a readable directory", flag, dir)
	}
	return dir, nil
}
