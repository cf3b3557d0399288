package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/apply"
	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// diffCommand is `artifacts diff`.
type diffCommand struct {
	*console
	*storeOpener
	cwd string
	// with names another session, and optionally a phase of it.
	with    string
	dir     string
	include []string
	// paths selects files.
	paths   []string
	reverse bool
	stat    bool
	binary  bool
}

// diffDocument is the document of `artifacts diff -o json`.
type diffDocument struct {
	Session string `json:"session"`
	// Phase is set if the changes of a phase are compared.
	Phase string `json:"phase"`
	// Checkpoint is the one that the session's work is taken from.
	Checkpoint spec.Digest `json:"checkpoint"`
	// Before and After name the two sides; From and To are their manifests.
	Before string        `json:"before"`
	After  string        `json:"after"`
	From   spec.Digest   `json:"from"`
	To     spec.Digest   `json:"to"`
	Files  []changedFile `json:"files"`
}

// changedFile is how a file differs.
type changedFile struct {
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
}

func newArtifactsDiff(a *app) *cobra.Command {
	c := diffCommand{console: a.console, storeOpener: a.storeOpener, cwd: a.env.Dir}
	cmd := &cobra.Command{
		Use:   "diff SESSION [PHASE | PHASE..PHASE] [-- PATH...]",
		Short: "Compare a session's files with its start, another phase, another session or a directory",
		Long: "Compare trees of files, as a patch that `git apply` takes:\n\n" +
			"  SESSION              the tree at the session's start, and its newest tree\n" +
			"  SESSION PHASE        the changes of PHASE, to review before `maestro approve` or `maestro reject`\n" +
			"  SESSION PHASE..PHASE the trees after two phases; an empty side is the start, or the newest tree\n" +
			"  --with OTHER[:PHASE] the session's tree (after PHASE, if given), and that of another session\n" +
			"  --dir DIR            the session's tree, and a directory, read like `run --workspace`\n\n" +
			"The tree after a phase has the work of the phase and of all phases that it depends on. A PATH is a file, a directory or a pattern.",
		Example: "  maestro artifacts diff web-7 --stat\n  maestro artifacts diff web-7 design..testing -- src docs\n" +
			"  maestro artifacts diff web-7 --with web-8\n  maestro artifacts diff web-7 --dir .",
		Args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				args, c.paths = args[:n], args[n:]
			}
			if len(args) > 2 {
				return usagef("unexpected argument %q; give paths after --: `%s`", args[2], cmd.UseLine())
			}
			return cmdline.Arguments(1, 2)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.run(cmd.Context(), args[:len(args)-len(c.paths)])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.with, "with", "", "OTHER[:PHASE]: session, and optionally its phase, to compare with")
	flags.StringVar(&c.dir, "dir", "", "directory to compare with; its files are stored like a workspace, until pruned")
	flags.StringArrayVar(&c.include, "include", nil, "pattern of files of --dir to take although ignored or looking like secrets; repeatable")
	flags.BoolVarP(&c.reverse, "reverse", "R", false, "swap the two sides")
	flags.BoolVar(&c.stat, "stat", false, "list files with counts of added and removed lines")
	flags.BoolVar(&c.binary, "binary", false, "include binary files in the patch")
	cmd.MarkFlagsMutuallyExclusive("with", "dir")
	a.addStoreFlags(cmd)
	return cmd
}

func (c *diffCommand) run(ctx context.Context, args []string) error {
	if len(c.include) > 0 && c.dir == "" {
		return usagef("--include needs --dir")
	}
	l, err := c.readSession(ctx, args[0])
	if err != nil {
		return err
	}
	doc := diffDocument{Session: args[0], Checkpoint: l.Name, Files: []changedFile{}}
	from, to, err := c.sides(ctx, l, strings.Join(args[1:], ""), &doc)
	if err != nil {
		return err
	}
	if c.reverse {
		from, to = to, from
	}
	doc.From, doc.Before, doc.To, doc.After = from.tree, from.name, to.tree, to.name
	for d, err := range l.store.Content.Patch(ctx, from.tree, to.tree, cas.PatchOptions{Paths: c.paths, Binary: c.binary}) {
		if errors.Is(err, session.ErrNotFound) && len(c.paths) > 0 {
			return usagef("%w", err)
		}
		if err != nil {
			return err
		}
		doc.Files = append(doc.Files, describeFile(d, c.stat))
	}
	switch {
	case c.output == outputJSON:
		return c.printJSON(doc)
	case len(doc.Files) == 0 && doc.Phase != "":
		c.printErr("phase %s changed no files", doc.Phase)
	case len(doc.Files) == 0:
		c.printErr("no differences between %s and %s", doc.Before, doc.After)
	case c.stat:
		c.writeStat(doc.Files)
	default:
		for _, f := range doc.Files {
			if err := c.writePatch(f.Diff); err != nil {
				return err
			}
		}
	}
	return nil
}

func describeFile(d cas.PathDiff, stat bool) changedFile {
	f := changedFile{Path: d.Path, Change: apply.ChangeOf(d.Had, d.Has), Added: d.Added, Removed: d.Removed, Binary: d.Opaque}
	if !stat {
		f.Diff = d.Text
	}
	return f
}

// diffColour is the colour of a line of a unified difference.
func diffColour(line string) terminal.Colour {
	for _, head := range []string{"diff --git ", "index ", "--- ", "+++ ", "old mode ", "new mode ", "new file mode ", "deleted file mode "} {
		if strings.HasPrefix(line, head) {
			return terminal.Bold
		}
	}
	switch {
	case strings.HasPrefix(line, "@@"):
		return terminal.Cyan
	case strings.HasPrefix(line, "+"):
		return terminal.Green
	case strings.HasPrefix(line, "-"):
		return terminal.Red
	}
	return ""
}

func (c *diffCommand) writeStat(files []changedFile) {
	t := c.table("PATH", "CHANGE", "ADDED", "REMOVED")
	added, removed := 0, 0
	for _, f := range files {
		added, removed = added+f.Added, removed+f.Removed
		plus, minus := terminal.Painted(fmt.Sprintf("+%d", f.Added), terminal.Green), terminal.Painted(fmt.Sprintf("-%d", f.Removed), terminal.Red)
		if f.Binary {
			plus, minus = terminal.Painted("binary", terminal.Dim), terminal.Plain("")
		}
		t.Add(terminal.Plain(safetext.Name(f.Path)), terminal.Plain(f.Change), plus, minus)
	}
	t.Write(c.stdout)
	c.printErr("%s, +%d -%d lines", textfmt.Count(len(files), "file"), added, removed)
}
