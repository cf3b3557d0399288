package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/apply"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// applyCommand is `apply`.
type applyCommand struct {
	*app
	dir    string
	patch  bool
	branch string
	force  bool
	dryRun bool
	// partial applies an incomplete result.
	partial bool
	// paths selects files of the session's tree.
	paths []string
}

// applyDocument is the document of `apply -o json`.
type applyDocument struct {
	control.Result
	// Dir is the directory, absolute; empty for a patch.
	Dir    string `json:"dir,omitempty"`
	DryRun bool   `json:"dry_run,omitempty"`
	// Files is what the session has changed.
	Files     []apply.File     `json:"files"`
	Conflicts []apply.Conflict `json:"conflicts"`
	Branch    *apply.Branch    `json:"branch,omitempty"`
	Patch     string           `json:"patch,omitempty"`
}

func newApply(a *app) *cobra.Command {
	c := applyCommand{app: a}
	cmd := &cobra.Command{
		Use:   "apply SESSION [PATH...]",
		Short: "Apply a session's result to a directory, as a patch, or as a commit on a branch",
		Long: "Apply a session's changes to the directory that it was started from (or --dir): created and changed files are " +
			"written, removed files are deleted. " +
			"A PATH limits this to a file, a directory or a pattern of the session's tree.\n\n" +
			"Your own changes are not overwritten: each file must be as it was when the session started, or already as the session left " +
			"it. Otherwise nothing is written and the conflicting files are listed. " +
			"--force overwrites them. --patch prints a patch for `git apply` instead. --branch creates a commit on a new branch without " +
			"touching the working tree or the index; its parent is the commit that the session was started on.\n\n" +
			"A session that has not completed has only a partial result. With --partial, the state of the newest checkpoint is applied; " +
			"otherwise nothing is written and the missing phases are listed.",
		Example: "  maestro apply web-7 --dry-run\n  maestro apply web-7 src docs\n  maestro apply web-7 --branch web-7 && git " +
			"merge web-7\n" +
			"  maestro apply web-7 --patch | git apply --3way",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.paths = args[1:]
			return c.run(cmd.Context(), args[0], cmd.Flags().Changed("branch"))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.dir, "dir", "", "directory to write to (default: the one the session was started from, else the current "+
		"directory)")
	flags.BoolVar(&c.patch, "patch", false, "print a patch instead, including binary files")
	flags.StringVar(&c.branch, "branch", "", "create a commit on this new branch of the directory's git repository instead")
	flags.BoolVar(&c.force, "force", false, "overwrite files that were changed there since; with --branch, also replace the branch")
	flags.BoolVar(&c.dryRun, "dry-run", false, "only list the changes")
	flags.BoolVar(&c.partial, "partial", false, "apply a partial result")
	cmd.MarkFlagsMutuallyExclusive("patch", "branch")
	for _, other := range []string{"force", "dry-run"} {
		cmd.MarkFlagsMutuallyExclusive("patch", other)
	}
	return a.addReadingFlags(cmd)
}

func (c *applyCommand) run(ctx context.Context, sessionID string, branch bool) error {
	if branch && c.branch == "" {
		return usagef("--branch is empty; give a branch name")
	}
	p, err := c.served(c.storeBase)(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	result, err := p.result(ctx, sessionID)
	if err != nil {
		return c.explain(err)
	}
	c.printDamage(result.Damage)
	doc := applyDocument{Result: result, DryRun: c.dryRun, Files: []apply.File{}, Conflicts: []apply.Conflict{}}
	switch {
	case doc.Whole:
	case !c.partial && !c.dryRun:
		return c.refuseIncomplete(doc)
	default:
		c.printErr("%s", doc.Reason)
	}
	work, source := result.Work, result.Source
	if doc.Dir, err = c.applyDir(source); err != nil && (!c.patch || c.dir != "") {
		return err
	}
	switch {
	case c.patch:
		err = c.applyPatch(ctx, work, doc)
	case c.branch != "":
		err = c.applyBranch(ctx, work, source, doc)
	default:
		err = c.applyFiles(ctx, work, doc)
	}
	if errors.Is(err, session.ErrNotFound) && len(c.paths) > 0 {
		return usagef("%w", err)
	}
	return err
}

// destination is a directory for the part of a session's work that was requested.
func (c *applyCommand) destination(dir string) apply.Target {
	return apply.Target{Dir: dir, Paths: c.paths, Force: c.force, DryRun: c.dryRun, Environ: c.environ}
}

// has returns the document with the outcome.
func (d applyDocument) has(out apply.Outcome) applyDocument {
	d.Files, d.Conflicts = append(d.Files, out.Files...), append(d.Conflicts, out.Conflicts...)
	return d
}

// applyDir is the directory to write to.
func (c *applyCommand) applyDir(source session.Source) (string, error) {
	switch {
	case c.dir != "":
		return c.directory("--dir", c.dir)
	case source.Dir == "":
		return c.env.Dir, nil
	case source.Host != c.env.Host:
		return "", usagef("the session was started from %s on host %s, not on this machine; give a directory with --dir", source.Dir,
			source.Host)
	}
	dir, err := c.directory("the session was started from", source.Dir)
	if err != nil {
		return "", usagef("the session's directory %s no longer exists; give another one with --dir", source.Dir)
	}
	return dir, nil
}

// applyPatch prints the changes of a session as a patch.
func (c *applyCommand) applyPatch(ctx context.Context, w apply.Work, doc applyDocument) error {
	text, prefix, files, err := apply.Patch(ctx, w, c.destination(doc.Dir))
	if err != nil {
		return err
	}
	doc.Dir, doc.Patch, doc.Files = "", text, append(doc.Files, files...)
	switch {
	case c.output == outputJSON:
		return c.printJSON(doc)
	case len(doc.Files) == 0:
		c.printErr("session %s changed no files", doc.Session)
	case prefix != "":
		c.printErr("the paths are relative to the top of the repository: %s", prefix)
	}
	return c.writePatch(doc.Patch)
}

// applyFiles writes the changes of a session into a directory.
func (c *applyCommand) applyFiles(ctx context.Context, w apply.Work, doc applyDocument) error {
	out, err := apply.Files(ctx, w, c.destination(doc.Dir))
	var begun *apply.WriteError
	switch doc = doc.has(out); {
	case errors.As(err, &begun):
		return fmt.Errorf("%w\nsome files may have been written to %s; run `%s` again to write the rest", err, doc.Dir,
			c.commandLine("apply "+doc.Session))
	case err != nil:
		return err
	case out.Refused:
		return c.refuseConflicts(doc, "nothing was written to "+doc.Dir, apply.InRepository(ctx, doc.Dir, c.environ))
	}
	return c.result(doc, func() { c.printApplied(doc) })
}

// applyBranch commits the changes of a session on a branch.
func (c *applyCommand) applyBranch(ctx context.Context, w apply.Work, source session.Source, doc applyDocument) error {
	out, err := apply.Commit(ctx, w, c.destination(doc.Dir), c.branch, source.Commit)
	for _, who := range out.Unnamed {
		c.printErr("user.name and user.email are not set in git, so the commit's %s is Maestro", who)
	}
	doc = doc.has(out.Outcome)
	doc.Branch = &out.Branch
	switch {
	case err != nil:
		return err
	case out.Refused:
		return c.refuseConflicts(doc, "no commit was created on "+cmp.Or(apply.Short(out.Branch.Parent), "nothing"), false)
	}
	return c.result(doc, func() { c.printCommitted(out) })
}

// printCommitted prints the commit that was created, or would be, and its files.
func (c *applyCommand) printCommitted(out apply.Committed) {
	name, parent := out.Branch.Name, apply.Short(out.Branch.Parent)
	if !out.Changed {
		c.printErr("no differences from %s; no branch was created", cmp.Or(parent, "an empty tree"))
		return
	}
	written := c.printChanged(out.Prefix, out.Files)
	on := "without a parent"
	if parent != "" {
		on = "on " + parent
	}
	if c.dryRun {
		c.printErr("would commit %s %s, as branch %s", textfmt.Count(written, "file"), on, name)
		return
	}
	c.printErr("branch %s: commit %s with %s, %s; merge it with `git merge %s`", name, apply.Short(out.Branch.Commit),
		textfmt.Count(written, "file"), on, name)
	if out.Head != out.Branch.Parent && parent != "" {
		c.printErr("HEAD has changed since the session was started, from %s to %s", parent, apply.Short(out.Head))
	}
}

// printChanged lists the files that were not as they are to be, and counts them.
func (c *applyCommand) printChanged(prefix string, files []apply.File) (changed int) {
	for _, f := range files {
		if !f.Already {
			changed++
			c.print("%-8s %s", f.Change, safetext.Name(prefix+f.Path))
		}
	}
	return changed
}

// printApplied lists the files that were written, or would be.
func (c *applyCommand) printApplied(doc applyDocument) {
	written := c.printChanged("", doc.Files)
	did := "applied"
	if doc.DryRun {
		did = "would apply"
	}
	from := doc.Session
	switch {
	case !doc.Whole:
		from += " (partial: " + doc.Part + ")"
	case doc.Phase != spec.ReservedPhase:
		from += " after " + doc.Phase
	}
	switch already := len(doc.Files) - written; {
	case len(doc.Files) == 0:
		c.printErr("session %s changed no files", doc.Session)
	case already > 0:
		c.printErr("%s %s of %s to %s; %s", did, textfmt.Count(written, "file"), from, doc.Dir,
			terminal.Verbed(already, "file", "was already up to date", "were already up to date"))
	default:
		c.printErr("%s %s of %s to %s", did, textfmt.Count(written, "file"), from, doc.Dir)
	}
}

// refuseConflicts lists the files that conflict with a session's work, and the
// possible commands. nothing describes what was not done.
func (c *applyCommand) refuseConflicts(doc applyDocument, nothing string, canBranch bool) error {
	if c.output == outputJSON {
		return cmp.Or(c.printJSON(doc), exit(exitFailed))
	}
	var b strings.Builder
	changed := terminal.Verbed(len(doc.Conflicts), "file", "is not as it was", "are not as they were")
	fmt.Fprintf(&b, "%s: %s when session %s started", nothing, changed, doc.Session)
	blocked := 0
	for _, conflict := range doc.Conflicts {
		fmt.Fprintf(&b, "\n  %s: %s", safetext.Name(conflict.Path), safetext.Line(conflict.Reason))
		if conflict.Blocked {
			blocked++
		}
	}
	again := c.commandLine("apply " + doc.Session)
	b.WriteString("\nchoose:")
	if canBranch {
		fmt.Fprintf(&b, "\n  %s --branch NAME   creates a commit for `git merge`, based on the session's start", again)
	}
	if blocked == 0 {
		fmt.Fprintf(&b, "\n  %s --force         overwrites your changes with the session's files", again)
	} else {
		fmt.Fprintf(&b, "\n  move away what blocks %s, then apply again", textfmt.Count(blocked, "file"))
	}
	fmt.Fprintf(&b, "\n  %s --patch         prints a patch for `git apply --3way` or for editing", again)
	return failf("%s", &b)
}

// refuseIncomplete rejects an incomplete result, and names the possible commands.
func (c *applyCommand) refuseIncomplete(doc applyDocument) error {
	if c.output == outputJSON {
		return cmp.Or(c.printJSON(doc), exit(exitFailed))
	}
	first := c.commandLine("resume " + doc.Session)
	if doc.Status != "" && !doc.Status.Closed() {
		first = c.commandLine("watch " + doc.Session)
	}
	return failf("%s; run `%s` or `%s`", doc.Reason, first, c.commandLine("apply "+doc.Session+" --partial"))
}
