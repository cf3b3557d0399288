package control

import (
	"context"
	"io"
	"path"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// DiffFile compares one file of a comparison.
func (r Reviews) DiffFile(ctx context.Context, in DiffInput, path string) (Diff, error) {
	if err := cas.CheckPath(path); err != nil {
		return Diff{}, invalidf("path", "%w", err)
	}
	in.Paths, in.MaxFiles = []string{literal(path)}, 1
	doc, err := r.Diff(ctx, in)
	switch {
	case ProblemOf(err).Field == "paths":
		return doc, notFoundf("%q not found in session %s", path, in.Session)
	case err == nil && len(doc.Files) == 0:
		return doc, notFoundf("%s does not differ between %s and %s", path, doc.Before, doc.After)
	}
	return doc, err
}

// Text is what a phase has made of a file, if that is a file of at most limit bytes. The file must be one that the phase changed.
func (r Reviews) Text(ctx context.Context, sessionID, phase, path string, limit int64) (text string, ok bool, err error) {
	doc, err := r.DiffFile(ctx, DiffInput{Session: sessionID, Which: phase, Stat: true}, path)
	if err != nil {
		return "", false, err
	}
	t, err := r.Store.Content.Tree(ctx, doc.To)
	if err != nil {
		return "", false, err
	}
	e, ok, err := t.Get(ctx, path)
	if !ok || err != nil || e.Link != "" || e.Size > limit {
		return "", false, err
	}
	data, err := r.Store.Content.Blob(ctx, e.SHA256)
	return string(data), err == nil, err
}

// literal is the pattern that a path alone matches.
func literal(path string) string {
	var b strings.Builder
	for _, c := range path {
		if strings.ContainsRune(`\*?[]{}`, c) {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// Download is a stream of bytes.
type Download struct {
	// Name is that of a file for them.
	Name string
	// Size is in bytes; zero: unknown.
	Size int64
	// WriteTo writes the bytes. After an error, what was written must not be used: it is damaged or
	// incomplete.
	WriteTo func(context.Context, io.Writer) error
}

// FileInput names a file of a session's newest tree.
type FileInput struct {
	Session string `path:"session" maxLength:"200" doc:"the session's id"`
	Path    string `query:"path" required:"true" maxLength:"1024" doc:"the file"`
}

// File is a file of a session's newest tree; a link has no content.
func (r Reviews) File(ctx context.Context, in FileInput) (Download, error) {
	k, err := r.kept(ctx, in.Session)
	if err != nil {
		return Download{}, err
	}
	t, err := k.store.Content.Tree(ctx, k.Tree)
	if err != nil {
		return Download{}, err
	}
	e, ok, err := t.Get(ctx, in.Path)
	if err != nil {
		return Download{}, err
	}
	if !ok || cas.CheckPath(in.Path) != nil {
		return Download{}, notFoundf("%q not found in the newest tree of session %s", textfmt.Shorten(in.Path, 200), in.Session)
	}
	return Download{path.Base(in.Path), e.Size, func(ctx context.Context, w io.Writer) error {
		_, err := k.store.Content.CopyBlob(ctx, e.SHA256, w)
		return err
	}}, nil
}

// Artifacts is the document of the files that a session's assignments have made.
type Artifacts struct {
	Session string `json:"session"`
	// Checkpoint is the one that the list is of, and Phase the phase that it
	// was taken after.
	Checkpoint spec.Digest        `json:"checkpoint"`
	Phase      string             `json:"phase"`
	Artifacts  []session.Artifact `json:"artifacts"`
	Damage
}

// Artifacts lists the files that a session's assignments have created or changed.
func (r Reviews) Artifacts(ctx context.Context, sessionID string) (Artifacts, error) {
	k, err := r.kept(ctx, sessionID)
	if err != nil {
		return Artifacts{}, err
	}
	return Artifacts{
		Session: sessionID, Checkpoint: k.Name, Phase: k.CurrentPhase, Artifacts: append([]session.Artifact{}, k.Artifacts...),
		Damage: k.Damage,
	}, nil
}
