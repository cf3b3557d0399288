package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// Work is what a session has made, as of a checkpoint.
type Work struct {
	store.StoredCheckpoint
	// Store has it.
	Store *store.Store
}

// Target says where the work goes, and which part of it.
type Target struct {
	// Dir is the directory, absolute; a patch may be for none.
	Dir string
	// Paths selects files of the session's tree; empty: all.
	Paths []string
	// Force writes over what was changed there meanwhile.
	Force bool
	// DryRun only looks what would be done.
	DryRun bool
	// Environ is the environment of the user whose git is run.
	Environ []string
}

// File is a file that a session has changed.
type File struct {
	Path string `json:"path"`
	// Change is added, changed or removed.
	Change string `json:"change"`
	// Already: it was as the session has it, so that there was nothing to do.
	Already bool `json:"already,omitempty"`
}

// Conflict is a path that is not as the session began with it.
type Conflict struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
	// Blocked: not even force writes there.
	Blocked bool `json:"blocked,omitempty"`
}

// Outcome is what was done, or would be.
type Outcome struct {
	Files     []File
	Conflicts []Conflict
	// Refused: nothing was done, because of the conflicts.
	Refused bool
}

// refuse settles whether the conflicts are in the way.
func (o *Outcome) refuse(force bool) bool {
	blocked := slices.ContainsFunc(o.Conflicts, func(c Conflict) bool { return c.Blocked })
	o.Refused = len(o.Conflicts) > 0 && (!force || blocked)
	return o.Refused
}

// A WriteError says that files may have been written before something failed. What is
// applied again writes the rest.
type WriteError struct{ err error }

func (e *WriteError) Error() string { return e.err.Error() }

// Unwrap returns what has failed.
func (e *WriteError) Unwrap() error { return e.err }

// Files writes what a session has changed into a directory.
func Files(ctx context.Context, w Work, t Target) (out Outcome, err error) {
	p, err := w.Store.Content.PlanApply(ctx, t.Dir, w.Workspace, w.Tree, t.Paths)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	for _, l := range p.Paths {
		out.Files = append(out.Files, File{Path: l.Path, Change: ChangeOf(l.Had, l.Has), Already: l.Already})
		if l.Conflict != "" {
			out.Conflicts = append(out.Conflicts, Conflict{l.Path, l.Conflict, l.Blocked})
		}
	}
	if out.refuse(t.Force) || t.DryRun {
		return out, nil
	}
	if err := p.Write(ctx); err != nil {
		return out, &WriteError{err}
	}
	return out, nil
}

// Patch is what a session has changed as a patch, binary files included. Its paths begin
// at the top of the repository that the directory is in, as `git apply` takes them; prefix
// is what that puts before them.
func Patch(ctx context.Context, w Work, t Target) (text, prefix string, files []File, err error) {
	if t.Dir != "" {
		prefix = gitIn(t.Dir, t.Environ).says(ctx, "rev-parse", "--show-prefix")
	}
	var b strings.Builder
	for d, err := range w.Store.Content.Patch(ctx, w.Workspace, w.Tree, cas.PatchOptions{
		Paths: t.Paths, Binary: true,
		Prefix: prefix,
	}) {
		if err != nil {
			return "", prefix, nil, err
		}
		b.WriteString(d.Text)
		files = append(files, File{Path: d.Path, Change: ChangeOf(d.Had, d.Has)})
	}
	return b.String(), prefix, files, nil
}

// ChangeOf names what has become of a path.
func ChangeOf(had, has bool) string {
	switch {
	case !had:
		return "added"
	case !has:
		return "removed"
	}
	return "changed"
}

// A RefusedError says that a branch cannot be made as it was asked for.
type RefusedError struct{ err error }

func (e *RefusedError) Error() string { return e.err.Error() }

// Unwrap returns what is wrong.
func (e *RefusedError) Unwrap() error { return e.err }

func refusef(format string, args ...any) error { return &RefusedError{fmt.Errorf(format, args...)} }
