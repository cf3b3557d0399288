package control

import (
	"cmp"
	"context"
	"errors"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/apply"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// Reviews show the results of sessions, for those who review or apply them.
type Reviews struct{ *Base }

// DiffInput selects what is compared. Without Which, With and Attempt, the session's tree at
// its start is compared with its newest one.
type DiffInput struct {
	Session string   `path:"session" maxLength:"200" doc:"the session's id"`
	Which   string   `query:"which" maxLength:"300" doc:"a phase, whose changes are compared, or A..B, each a phase or a checkpoint; left out: the session's start and its newest tree"`
	With    string   `query:"with" maxLength:"400" doc:"OTHER[:PHASE]: another session to compare with"`
	Redone  bool     `query:"redone" doc:"the changes of the phase since its work was last sent back"`
	Stat    bool     `query:"stat" doc:"leave out the texts"`
	Binary  bool     `query:"binary" doc:"include the content of binary files"`
	Paths   []string `query:"path,explode" maxItems:"100" doc:"a file, directory or pattern; repeatable"`
	// Attempt compares the start of an attempt with its result; nil: none.
	Attempt *AttemptRef
	// MaxFiles and MaxBytes limit the files, and the sum of their patches; zero: no limit, but that
	// of a server.
	MaxFiles int
	MaxBytes int `query:"max_bytes" minimum:"1" maximum:"4194304" doc:"leave out texts beyond this sum, in bytes"`
}

// The limits of a difference that a server sends.
const (
	maxDiffFiles = 1000
	maxDiffBytes = 4 << 20
)

// Diff is the document of a comparison.
type Diff struct {
	Session string `json:"session"`
	// Phase is set if the changes of a phase are compared.
	Phase string `json:"phase"`
	// Checkpoint is the checkpoint that has the session's work.
	Checkpoint spec.Digest `json:"checkpoint"`
	// Before and After name the two sides; From and To are their manifests, empty if those are not
	// stored.
	Before string        `json:"before"`
	After  string        `json:"after"`
	From   spec.Digest   `json:"from"`
	To     spec.Digest   `json:"to"`
	Files  []ChangedFile `json:"files"`
	// Truncated: there are more files than requested.
	Truncated bool `json:"truncated,omitempty"`
	Damage

	// bytes is the size of the files' patches.
	bytes int
}

// ChangedFile is how a file differs.
type ChangedFile struct {
	Path string `json:"path"`
	// Change is added, changed or removed.
	Change string `json:"change"`
	// Added and Removed count lines.
	Added   int `json:"added"`
	Removed int `json:"removed"`
	// Binary: it is not text, or too large to compare by lines.
	Binary bool `json:"binary,omitempty"`
	// Diff is the file's part of the patch; left out with --stat.
	Diff string `json:"diff,omitempty"`
	// Omitted: the patch is left out, because all patches together would be too large.
	Omitted bool `json:"omitted,omitempty"`
}

// Diff compares two trees of files.
func (r Reviews) Diff(ctx context.Context, in DiffInput) (Diff, error) {
	if r.Serves && in.MaxFiles == 0 {
		in.MaxFiles, in.MaxBytes = maxDiffFiles, cmp.Or(in.MaxBytes, maxDiffBytes)
	}
	if in.Attempt != nil {
		return r.attemptDiff(ctx, in)
	}
	doc, err := r.between(ctx, in)
	if err != nil {
		return doc, err
	}
	return doc, r.compare(ctx, in, &doc)
}

// between is the document of a comparison, without the files.
func (r Reviews) between(ctx context.Context, in DiffInput) (Diff, error) {
	doc := Diff{Session: in.Session, Files: []ChangedFile{}}
	k, err := r.keptTeam(ctx, in.Session)
	if err != nil {
		return doc, err
	}
	doc.Checkpoint, doc.Damage = k.Name, k.Damage
	from, to, err := r.sides(ctx, k, in, &doc)
	doc.put(from, to)
	return doc, err
}

// put sets the two sides.
func (doc *Diff) put(from, to treeSide) {
	doc.From, doc.Before, doc.To, doc.After = from.tree, from.name, to.tree, to.name
}

// compare adds the differences between the two sides.
func (r Reviews) compare(ctx context.Context, in DiffInput, doc *Diff) error {
	for d, err := range r.Store.Content.Patch(ctx, doc.From, doc.To, cas.PatchOptions{Paths: in.Paths, Binary: in.Binary}) {
		if err != nil {
			return unselected(err, in.Paths)
		}
		f := ChangedFile{
			Path: d.Path, Change: apply.ChangeOf(d.Had, d.Has), Added: d.Added, Removed: d.Removed, Binary: d.Opaque,
			Diff: d.Text,
		}
		if !doc.add(in, f) {
			break
		}
	}
	return nil
}

// add adds a file, and reports whether it fits within the limits.
func (doc *Diff) add(in DiffInput, f ChangedFile) bool {
	if in.MaxFiles > 0 && len(doc.Files) == in.MaxFiles {
		doc.Truncated = true
		return false
	}
	switch {
	case in.Stat:
		f.Diff = ""
	case in.MaxBytes > 0 && doc.bytes+len(f.Diff) > in.MaxBytes:
		f.Diff, f.Omitted = "", true
	}
	doc.bytes += len(f.Diff)
	doc.Files = append(doc.Files, f)
	return true
}

// unselected is the error for a selection of paths that match no file.
func unselected(err error, paths []string) error {
	_, refused := errors.AsType[*cas.RefusedError](err)
	if len(paths) > 0 && (errors.Is(err, session.ErrNotFound) || refused) {
		return invalid("paths", err)
	}
	return err
}
