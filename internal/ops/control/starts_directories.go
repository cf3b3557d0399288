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
