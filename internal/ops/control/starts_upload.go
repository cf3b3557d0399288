package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

const (
	// MaxUpload limits an uploaded archive, in bytes.
	MaxUpload = 512 << 20
	// maxUnpacked limits the sum of the files in it.
	maxUnpacked = 1 << 30
	// shownPaths limits the listed names of files that were left out.
	shownPaths = 100
)

// Workspace is the document of files that were stored for a session to start from. They are kept for
// at least a day.
type Workspace struct {
	// Workspace is their manifest.
	Workspace spec.Digest `json:"workspace"`
	Files     int         `json:"files"`
	Bytes     int64       `json:"bytes"`
	// Private are files that look like secrets, Ignored those that the team or .gitignore files
	// ignore: both were left out. If there are many, the first are listed.
	Private []string `json:"private"`
	Ignored []string `json:"ignored"`
	// Odd are what no tree can hold, with the reasons. They were left out, too.
	Odd []string `json:"odd"`
}

// LeftOut says in sentences what was left out.
func (w Workspace) LeftOut() []string {
	return cas.Snapshot{Private: w.Private, Ignored: w.Ignored, Odd: w.Odd}.LeftOut()
}

// Recipient is the session of an upload: a new one of a team, or an existing one.
type Recipient struct {
	// Team may also name a team that is not registered. Its ignore rules are then unknown.
	Team    TeamInput
	Session string
	// Include are patterns of files to take although ignored or looking like secrets.
	Include []string
}

// MayUpload returns an error, and records it, if the caller may not upload files.
func (s Starts) MayUpload(ctx context.Context, to Recipient) error {
	event, err := s.uploadOf(ctx, to)
	if err != nil {
		return err
	}
	return to.hide(ctx, s.Audit.Check(ctx, access.Operate, event))
}

// hide hides in a denial whose the recipient's session is.
func (to Recipient) hide(ctx context.Context, err error) error {
	if to.Session == "" {
		return err
	}
	return access.Hide(ctx, err)
}

// uploadOf is the audit event of an upload.
func (s Starts) uploadOf(ctx context.Context, to Recipient) (access.Event, error) {
	e := access.Event{Action: "workspace.upload", Session: to.Session}
	switch {
	case to.Session != "":
		e.Team = s.teamName(ctx, to.Session)
		return e, nil
	case to.Team == (TeamInput{}):
		return e, invalidf("team", "missing; name the team, or the session, that the files are for")
	case to.Team.Name == "": // the team has to be read for its name
		t, err := s.team(ctx, to.Team)
		e.Team = t.Name
		return e, err
	}
	e.Team, _, _ = strings.Cut(to.Team.Name, "@")
	return e, invalid("team", spec.CheckName(e.Team))
}

// ignored are the patterns of files that a team leaves out. They are unknown for a team that is not
// registered, and for a session without a checkpoint.
func (s Starts) ignored(ctx context.Context, to Recipient) ([]string, error) {
	if to.Session != "" {
		k, err := s.keptTeam(ctx, to.Session)
		if ProblemOf(err).Kind == Conflict {
			err = nil
		}
		return k.team.Ignore, err
	}
	t, err := s.team(ctx, to.Team)
	if ProblemOf(err).Kind == NotFound && !strings.Contains(to.Team.Name, "@") {
		err = nil
	}
	return t.Ignore, err
}

// Upload stores the files of an archive (tar, tar.gz or zip) for sessions of a team, by the rules
// for a workspace: files that the team or .gitignore files ignore, and those that look like
// secrets, are left out.
func (s Starts) Upload(ctx context.Context, to Recipient, archive io.Reader) (doc Workspace, err error) {
	event, err := s.uploadOf(ctx, to)
	if err != nil {
		return doc, err
	}
	err = s.Audit.Change(ctx, access.Operate, event, func(ctx context.Context) error {
		ignored, err := s.ignored(ctx, to)
		if err != nil {
			return err
		}
		snap, err := unpacked(ctx, s.Store, archive, cas.SnapshotOptions{Ignore: ignored, Include: to.Include})
		if refused, ok := errors.AsType[*cas.RefusedError](err); ok {
			return invalid("archive", refused)
		}
		if errors.Is(err, cas.ErrNoArchive) {
			return invalid("archive", err)
		}
		doc = Workspace{
			Workspace: snap.Manifest, Files: snap.Files, Bytes: snap.Bytes,
			Private: firstPaths(snap.Private), Ignored: firstPaths(snap.Ignored), Odd: firstPaths(snap.Odd),
		}
		if err == nil {
			err = s.uploaded(ctx, event.Team, snap.Manifest, snap.LeftOut())
		}
		return err
	})
	return doc, to.hide(ctx, err)
}

// unpacked stores the files of an archive.
func unpacked(ctx context.Context, st *store.Store, archive io.Reader, o cas.SnapshotOptions) (snap cas.Snapshot, err error) {
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
	left, err := cas.Unpack(ctx, f, tree, cas.Limits{TreeBytes: maxUnpacked})
	if err != nil {
		return snap, err
	}
	snap, err = st.Content.Snapshot(ctx, tree, o)
	snap.Odd = append(left, snap.Odd...)
	return snap, err
}

func firstPaths(all []string) []string { return append([]string{}, all[:min(len(all), shownPaths)]...) }
