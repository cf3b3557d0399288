package control

import (
	"context"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// maxShown limits a file's text that is shown as a whole, in bytes.
const maxShown = 1 << 20

// FileDiff is the document of one file's comparison: both texts, to be drawn side by side.
type FileDiff struct {
	Session string `json:"session"`
	ChangedFile
	// Before and After name the two sides, and Old and New are the file there.
	Before string   `json:"before"`
	After  string   `json:"after"`
	Old    FileSide `json:"old"`
	New    FileSide `json:"new"`
}

// FileSide is a file on one side of a comparison.
type FileSide struct {
	// Exists: the side has the file. Otherwise all other fields are empty.
	Exists     bool        `json:"exists"`
	SHA256     spec.Digest `json:"sha256"`
	Size       int64       `json:"size"`
	Executable bool        `json:"executable"`
	// Link is the target of a link; empty for a file.
	Link string `json:"link"`
	// Text is the content; empty if it is Binary or TooLarge.
	Text     string `json:"text"`
	Binary   bool   `json:"binary"`
	TooLarge bool   `json:"too_large"`
}

// FileDiffInput names one file of a comparison.
type FileDiffInput struct {
	Session string `path:"session" maxLength:"200" doc:"the session's id"`
	Which   string `query:"which" maxLength:"300" doc:"as for the whole difference"`
	With    string `query:"with" maxLength:"400" doc:"as for the whole difference"`
	Redone  bool   `query:"redone" doc:"as for the whole difference"`
	Path    string `query:"path" required:"true" maxLength:"1024" doc:"the file"`
	// Attempt is as in [DiffInput].
	Attempt *AttemptRef
}

// File names one file of the comparison.
func (in DiffInput) File(path string) FileDiffInput {
	return FileDiffInput{Session: in.Session, Which: in.Which, With: in.With, Redone: in.Redone, Path: path, Attempt: in.Attempt}
}

// DiffFile compares one file of a comparison.
func (r Reviews) DiffFile(ctx context.Context, in FileDiffInput) (FileDiff, error) {
	doc, path := FileDiff{Session: in.Session}, in.Path
	if err := cas.CheckPath(path); err != nil {
		return doc, invalidf("path", "%w", err)
	}
	all, err := r.Diff(ctx, DiffInput{
		Session: in.Session, Which: in.Which, With: in.With, Redone: in.Redone, Attempt: in.Attempt, Paths: []string{literal(path)},
		MaxFiles: 1,
	})
	switch {
	case ProblemOf(err).Field == "paths":
		return doc, notFoundf("%q not found in session %s", path, in.Session)
	case err != nil:
		return doc, err
	case len(all.Files) == 0:
		return doc, notFoundf("%s does not differ between %s and %s", path, all.Before, all.After)
	}
	doc.ChangedFile, doc.Before, doc.After = all.Files[0], all.Before, all.After
	if doc.Old, err = r.fileIn(ctx, all.From, path); err == nil {
		doc.New, err = r.fileIn(ctx, all.To, path)
	}
	return doc, err
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

// fileIn is a file of a tree. A failed attempt may have none.
func (r Reviews) fileIn(ctx context.Context, tree spec.Digest, path string) (side FileSide, err error) {
	if tree == "" {
		return side, nil
	}
	t, err := r.Store.Content.Tree(ctx, tree)
	if err != nil {
		return side, err
	}
	e, ok, err := t.Get(ctx, path)
	if err != nil {
		return side, err
	}
	side = FileSide{Exists: ok, SHA256: e.SHA256, Size: e.Size, Executable: e.Executable, Link: e.Link}
	switch {
	case !ok || e.Size == 0:
		return side, nil
	case e.Size > maxShown:
		side.TooLarge = true
		return side, nil
	}
	data, err := r.Store.Content.Blob(ctx, e.SHA256)
	if err != nil {
		return side, err
	}
	if side.Binary = !utf8.Valid(data) || strings.ContainsRune(string(data), 0); !side.Binary {
		side.Text = string(data)
	}
	return side, nil
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
