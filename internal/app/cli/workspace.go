package cli

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/apply"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// workspaceFlags name the directory whose files a session starts from.
type workspaceFlags struct {
	dir     string
	include []string
	// leftOut is what the snapshot has left out.
	leftOut []string
}

// add gives a command the flags.
func (f *workspaceFlags) add(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&f.dir, "workspace", "", usage)
	cmd.Flags().StringArrayVar(&f.include, "include", nil, "pattern of files to take although ignored or looking like secrets; repeatable")
}

// check refuses a workspace that is no directory, and patterns without one.
func (f workspaceFlags) check() error {
	if f.dir == "" {
		if len(f.include) > 0 {
			return usagef("--include needs --workspace")
		}
		return nil
	}
	info, err := os.Stat(f.dir)
	if err != nil || !info.IsDir() {
		return usagef("--workspace: %s is not a readable directory", f.dir)
	}
	return nil
}

// snapshot stores the files that the session starts from.
func (f *workspaceFlags) snapshot(ctx context.Context, out *console, environ []string, s *store.Store, t spec.Team) (spec.Digest, error) {
	if f.dir == "" {
		return s.Content.PutManifest(ctx, cas.Manifest{})
	}
	snap, err := s.Content.Snapshot(ctx, f.dir, apply.WithTracked(ctx, f.dir, environ, cas.SnapshotOptions{Ignore: t.Ignore, Include: f.include}))
	if err != nil {
		return "", err
	}
	dir, err := filepath.Abs(f.dir)
	if err != nil {
		dir = f.dir
	}
	out.printErr("the session starts from %s (%s) of %s", textfmt.Count(snap.Files, "file"), textfmt.Size(snap.Bytes), dir)
	f.leftOut = snap.LeftOut()
	for _, note := range f.leftOut {
		out.printErr("not taken, %s", note)
	}
	if len(snap.Private)+len(snap.Ignored) > 0 {
		out.printErr("--include PATTERN takes files that are ignored or look like secrets")
	}
	return snap.Manifest, nil
}

// source is the origin of the workspace of a session that is about to start; nil if it
// has none.
func (f workspaceFlags) source(ctx context.Context, env Env) *session.Source {
	if f.dir == "" {
		return nil
	}
	dir, err := filepath.Abs(f.dir)
	if err != nil {
		return nil
	}
	return &session.Source{
		Host: env.Host, Dir: dir, Include: f.include, LeftOut: f.leftOut,
		Commit: apply.Head(ctx, dir, environ(env.Environ)),
	}
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
