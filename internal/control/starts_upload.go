package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

const (
	// MaxUpload bounds an archive that is uploaded, in bytes.
	MaxUpload = 512 << 20
	// maxUnpacked bounds the files in it together.
	maxUnpacked = 1 << 30
	// shownPaths bounds the names of files that were left out.
	shownPaths = 100
)

// Workspace is the document of files that were stored for a session to start from. They are kept for
// at least a day.
type Workspace struct {
	// Workspace is their manifest.
	Workspace spec.Digest `json:"workspace"`
	Files     int         `json:"files"`
	Bytes     int64       `json:"bytes"`
	// Private are files that look like secrets, Ignored those that .gitignore files name: both were
	// left out. Of many the first are named.
	Private []string `json:"private"`
	Ignored []string `json:"ignored"`
}

// Upload stores the files of an archive (tar, tar.gz or zip) for sessions of a team, by the rules
// for a workspace: ignored files and those that look like secrets are left out.
func (s Starts) Upload(ctx context.Context, team string, archive io.Reader) (Workspace, error) {
	return s.UploadIncluding(ctx, team, archive, nil)
}

// UploadIncluding is like Upload, and takes files also that patterns include.
func (s Starts) UploadIncluding(ctx context.Context, team string, archive io.Reader, include []string) (doc Workspace, err error) {
	err = s.Audit.Change(ctx, access.Operate, access.Event{Action: "workspace.upload", Team: team}, func(ctx context.Context) error {
		if err := spec.CheckName(team); err != nil {
			return &Error{Kind: Invalid, Field: "team", err: err}
		}
		st, err := s.stored()
		if err != nil {
			return err
		}
		snap, err := unpacked(ctx, st, archive, include)
		var refused *cas.RefusedError
		switch {
		case errors.As(err, &refused):
			return &Error{Kind: Invalid, Field: "archive", err: refused}
		case errors.Is(err, cas.ErrNoArchive):
			return &Error{Kind: Invalid, Field: "archive", err: err}
		}
		doc = Workspace{
			Workspace: snap.Manifest, Files: snap.Files, Bytes: snap.Bytes,
			Private: firstPaths(snap.Private), Ignored: firstPaths(snap.Ignored),
		}
		return err
	})
	return doc, err
}

// unpacked stores the files of an archive.
func unpacked(ctx context.Context, st *store.Store, archive io.Reader, include []string) (snap cas.Snapshot, err error) {
	dir, err := os.MkdirTemp("", "maestro-upload-")
	if err != nil {
		return snap, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	f, err := os.OpenFile(filepath.Join(dir, "archive"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return snap, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	switch n, err := io.Copy(f, io.LimitReader(archive, MaxUpload+1)); {
	case err != nil:
		return snap, fmt.Errorf("receive the archive: %w", err)
	case n > MaxUpload:
		return snap, invalidf("archive", "larger than %s; leave files out", textfmt.Size(MaxUpload))
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return snap, err
	}
	tree := filepath.Join(dir, "tree")
	if err := os.Mkdir(tree, 0o700); err != nil {
		return snap, err
	}
	if err := cas.Unpack(ctx, f, tree, cas.Limits{TreeBytes: maxUnpacked}); err != nil {
		return snap, err
	}
	snap, err = st.Content.Snapshot(ctx, tree, cas.SnapshotOptions{Include: include})
	return snap, errors.Join(err, st.Content.DropIndex(tree))
}

func firstPaths(all []string) []string { return append([]string{}, all[:min(len(all), shownPaths)]...) }
