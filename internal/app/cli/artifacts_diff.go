package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// diffCommand is `artifacts diff`.
type diffCommand struct {
	*console
	*connector
	control.DiffInput
}

func newArtifactsDiff(a *app) *cobra.Command {
	c := diffCommand{console: a.console, connector: a.connector}
	cmd := &cobra.Command{
		Use:   "diff SESSION [PHASE | PHASE..PHASE] [-- PATH...]",
		Short: "Compare a session's files with its start, another phase or another session",
		Long: "Compare trees of files, as a patch that `git apply` takes:\n\n" +
			"  SESSION              the tree at the session's start, and its newest tree\n" +
			"  SESSION PHASE        the changes of PHASE, to review before `maestro approve` or `maestro reject`\n" +
			"  SESSION PHASE..PHASE the trees after two phases; an empty side is the start, or the newest tree\n" +
			"  --with OTHER[:PHASE] the session's tree (after PHASE, if given), and that of another session\n\n" +
			"The tree after a phase has the work of the phase and of all phases that it depends on. A PATH is a file, a directory or a pattern.",
		Example: "  maestro artifacts diff web-7 --stat\n  maestro artifacts diff web-7 design..testing -- src docs\n" +
			"  maestro artifacts diff web-7 --with web-8",
		Args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				args, c.Paths = args[:n], args[n:]
			}
			if len(args) > 2 {
				return usagef("unexpected argument %q; give paths after --: `%s`", args[2], cmd.UseLine())
			}
			return cmdline.Arguments(1, 2)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.run(cmd.Context(), args[:len(args)-len(c.Paths)])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.With, "with", "", "OTHER[:PHASE]: session, and optionally its phase, to compare with")
	flags.BoolVar(&c.Stat, "stat", false, "list files with counts of added and removed lines")
	flags.BoolVar(&c.Binary, "binary", false, "include binary files in the patch")
	a.addReadingFlags(cmd)
	return cmd
}

func (c *diffCommand) run(ctx context.Context, args []string) error {
	c.Session, c.Which = args[0], strings.Join(args[1:], "")
	if c.With != "" && strings.Contains(c.Which, "..") {
		return usagef("%s compares two phases; with --with, give at most one phase", c.Which)
	}
	p, err := c.reading(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	doc, err := invoke(ctx, p, httpapi.DiffSession, c.DiffInput)
	if err != nil {
		return c.explainIn(ctx, p, err)
	}
	c.printDamage(doc.Damage)
	c.printOmitted(doc)
	switch {
	case c.output == outputJSON:
		return c.printJSON(doc)
	case len(doc.Files) == 0 && doc.Phase != "":
		c.printErr("phase %s changed no files", doc.Phase)
	case len(doc.Files) == 0:
		c.printErr("no differences between %s and %s", doc.Before, doc.After)
	case c.Stat:
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

// printOmitted lists what a server has left out, because it would be too large.
func (c *diffCommand) printOmitted(doc control.Diff) {
	omitted := 0
	for _, f := range doc.Files {
		if f.Omitted {
			omitted++
		}
	}
	if omitted > 0 {
		c.printErr("the texts of %s are left out, because all would be too large; name files: -- PATH...", textfmt.Count(omitted, "file"))
	}
	if doc.Truncated {
		c.printErr("there are more than %s; name files or directories: -- PATH...", textfmt.Count(len(doc.Files), "file"))
	}
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

func (c *diffCommand) writeStat(files []control.ChangedFile) {
	t := c.table("PATH", "CHANGE", "ADDED", "REMOVED")
	added, removed := 0, 0
	for _, f := range files {
		added, removed = added+f.Added, removed+f.Removed
		plus, minus := terminal.Painted(fmt.Sprintf("+%d", f.Added), terminal.Green), terminal.Painted(fmt.Sprintf("-%d", f.Removed), terminal.Red)
		if f.Binary {
			plus, minus = terminal.Painted("binary", terminal.Dim), terminal.Cell{}
		}
		t.Add(safetext.Name(f.Path), f.Change, plus, minus)
	}
	t.Write(c.stdout)
	c.printErr("%s, +%d -%d lines", textfmt.Count(len(files), "file"), added, removed)
}
