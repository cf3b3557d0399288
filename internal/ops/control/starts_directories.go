package control

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/launch"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// Directory is a directory of the server's host that sessions may start from.
type Directory struct {
	Name string `json:"name"`
	// Source is its path, and the commit that is checked out there. Options adds what git knows of its files.
	Source  func(context.Context) session.Source                           `json:"-"`
	Options func(context.Context, cas.SnapshotOptions) cas.SnapshotOptions `json:"-"`
}

// DirectoryList is the directories that sessions may start from, by name.
type DirectoryList struct {
	Directories []Directory `json:"directories"`
}

// ListDirectories lists the directories of the server's host that sessions may start from.
func (s Starts) ListDirectories(ctx context.Context) (DirectoryList, error) {
	return DirectoryList{append([]Directory{}, s.Directories...)}, access.Check(ctx, access.View, access.NoTeam)
}

// files are the files at a session's start: stored files, a directory as it is now, or none.
func (s Starts) files(ctx context.Context, st *store.Store, in NewSession, next *launch.Session) (err error) {
	switch {
	case in.Directory != "" && in.Workspace != "":
		return invalidf("directory", "excludes workspace; leave one out")
	case in.Directory != "":
		next.Start.Workspace, next.Start.Course.Source, err = s.taken(ctx, st, in.Directory, next.Team)
	case in.Workspace != "":
		if next.Start.Workspace, err = in.Workspace, s.checkFiles(ctx, next.Team.Name, "workspace", in.Workspace); err != nil {
			return err
		}
		if notes := s.leftOutOf(ctx, next.Team.Name, in.Workspace); len(notes) > 0 {
			if next.Start.Course.Source == nil {
				next.Start.Course.Source = &session.Source{}
			}
			next.Start.Course.Source.LeftOut = append(next.Start.Course.Source.LeftOut, notes...)
		}
	default:
		next.Start.Workspace, err = st.Content.PutManifest(ctx, cas.Manifest{})
	}
	return err
}

// taken stores the files of a directory as they are now.
func (s Starts) taken(ctx context.Context, st *store.Store, name string, t spec.Team) (spec.Digest, *session.Source, error) {
	i := slices.IndexFunc(s.Directories, func(d Directory) bool { return d.Name == name })
	if i < 0 {
		return "", nil, invalidf("directory", "%q is not a directory that sessions may start from here", textfmt.Shorten(name, 80))
	}
	source := s.Directories[i].Source(ctx)
	options := cas.SnapshotOptions{Ignore: t.Ignore}
	if add := s.Directories[i].Options; add != nil {
		options = add(ctx, options)
	}
	snap, err := st.Content.Snapshot(ctx, source.Dir, options)
	source.LeftOut = snap.LeftOut()
	if refused, ok := errors.AsType[*cas.RefusedError](err); ok {
		return "", nil, invalid("directory", refused)
	}
	if why := unreadable(source.Dir); err != nil && why != nil {
		return "", nil, unavailablef("directory %s of this server cannot be read: %w; bring it back, or start the server with "+
			"--workspace %[1]s=DIR", name, why)
	}
	return snap.Manifest, &source, err
}

// unreadable says why a directory cannot be read, without its path; nil: it can be.
func unreadable(dir string) error {
	_, err := os.ReadDir(dir)
	if where, ok := errors.AsType[*fs.PathError](err); ok {
		return where.Err
	}
	return err
}
