package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// exportDocument is the document of `artifacts get -o json`.
type exportDocument struct {
	Session    string      `json:"session"`
	Checkpoint spec.Digest `json:"checkpoint,omitempty"`
	// Out is the directory, absolute; Files are what was written, relative to it.
	Out   string   `json:"out"`
	Files []string `json:"files"`
}

func newArtifacts(a *app) *cobra.Command {
	return group("artifacts", "List, get and compare the files that a session created", newArtifactsList(a), newArtifactsGet(a),
		newArtifactsDiff(a))
}

func newArtifactsList(a *app) *cobra.Command {
	return a.addReadingFlags(&cobra.Command{
		Use:   "list SESSION",
		Short: "List the files that a session's assignments created or changed",
		RunE: func(cmd *cobra.Command, args []string) error {
			in := httpapi.OfSession{Session: args[0]}
			doc, err := ask(cmd.Context(), a.connector, a.served(a.storeBase), httpapi.ListArtifacts, in)
			if err != nil {
				return err
			}
			a.printDamage(doc.Damage)
			return a.result(doc, func() { a.writeArtifacts(doc) })
		},
	})
}

func (a *app) writeArtifacts(doc control.Artifacts) {
	if len(doc.Artifacts) == 0 {
		a.printErr("no phase has created a file yet (newest checkpoint: after %s)", doc.Phase)
		return
	}
	t := a.table("PATH", "SIZE", "BY", "SHA256")
	for _, f := range doc.Artifacts {
		bytes, digest := textfmt.Size(f.Size), f.SHA256.Short()
		if f.SHA256 == "" {
			bytes, digest = "link", "-"
		}
		t.Add(safetext.Name(f.Path), bytes, f.String(), terminal.Painted(digest, terminal.Dim))
	}
	t.Write(a.stdout)
}

// getCommand is `artifacts get`.
type getCommand struct {
	*app
	out       string
	of        string
	overwrite bool
}

func newArtifactsGet(a *app) *cobra.Command {
	c := getCommand{app: a}
	cmd := &cobra.Command{
		Use:   "get SESSION [PATH...] --out DIR",
		Short: "Write a session's files to a directory: selected files, or the whole result",
		Long: "Write files of a session's newest checkpoint to a directory. A PATH is a file, a directory or a pattern like " +
			"\"docs/**\"; without one, the whole result tree is written, including the workspace's files. " +
			"With --of, they are the files as the last attempt of an assignment left them, to look at, or to correct and supply.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.out == "" {
				return usagef("--out is missing; give the directory to write to")
			}
			if c.of != "" {
				return c.getLeft(cmd.Context(), args[0], args[1:])
			}
			return c.get(cmd.Context(), args[0], args[1:])
		},
	}
	cmd.Flags().StringVar(&c.out, "out", "", "directory to write to; created if missing")
	cmd.Flags().StringVar(&c.of, "of", "", "PHASE/PERSONA: the files as its last attempt left them; needs the store")
	cmd.Flags().BoolVar(&c.overwrite, "overwrite", false, "overwrite existing files")
	return a.addReadingFlags(cmd)
}

func (c *getCommand) get(ctx context.Context, sessionID string, wanted []string) error {
	p, err := c.served(c.storeBase)(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	newest, err := p.newest(ctx, sessionID, wanted)
	if err != nil {
		return c.explain(err)
	}
	c.printDamage(newest.Damage)
	files, err := c.export(ctx, newest.Work.Store, newest.Work.Tree, wanted)
	if err != nil {
		return err
	}
	doc := exportDocument{Session: sessionID, Checkpoint: newest.Checkpoint, Out: c.out, Files: files}
	return c.result(doc, func() { c.printWritten(files, "checkpoint after "+newest.Phase) })
}

// export writes files of a tree to the directory of --out, which becomes absolute.
func (c *getCommand) export(ctx context.Context, s *store.Store, tree spec.Digest, wanted []string) (files []string, err error) {
	if c.out, err = filepath.Abs(c.out); err != nil {
		return nil, usagef("--out: %w", err)
	}
	files, err = s.Content.Export(ctx, tree, wanted, c.out, c.overwrite)
	if errors.Is(err, session.ErrNotFound) && len(wanted) > 0 {
		err = usagef("%w", err)
	}
	return files, err
}

func (c *getCommand) printWritten(files []string, from string) {
	for _, f := range files {
		c.print("%s", safetext.Name(f))
	}
	c.printErr("wrote %s to %s (%s)", textfmt.Count(len(files), "file"), c.out, from)
}

// getLeft writes the files that the last attempt of an assignment left.
func (c *getCommand) getLeft(ctx context.Context, sessionID string, wanted []string) error {
	id, err := spec.ParseAssignmentID(c.of)
	if err != nil {
		return usagef("--of: %w", err)
	}
	s, key, err := c.stored(ctx, sessionID)
	if err != nil {
		return err
	}
	record, err := s.State.Record(ctx, state.Assignment{Key: key, AssignmentID: id})
	if err != nil {
		return err
	}
	tree := leftOf(record)
	if tree == "" {
		return usagef("session %s has no files of a finished attempt of %s; `%s` lists its assignments", sessionID, id,
			c.commandLine("status "+sessionID))
	}
	files, err := c.export(ctx, s, tree, wanted)
	if err != nil {
		return err
	}
	return c.result(exportDocument{Session: sessionID, Out: c.out, Files: files}, func() {
		c.printWritten(files, "as the last attempt of "+id.String()+" left them")
		supply := fmt.Sprintf("resolve %s supply %s --whole --for %s", sessionID, agent.ShellWord(c.out), id)
		c.printErr("supply them when they are corrected: %s", c.commandLine(supply))
	})
}

// leftOf is the newest recorded tree of an assignment's work; empty if there is none.
func leftOf(r session.Record) spec.Digest {
	for _, round := range slices.Backward(r.Rounds) {
		if round.Result != nil {
			return round.Result.Output
		}
		for _, attempt := range slices.Backward(round.Attempts) {
			if attempt.Files != "" {
				return attempt.Files
			}
		}
	}
	return ""
}

// diffCommand is `artifacts diff`.
type diffCommand struct {
	*app
	control.DiffInput
}

func newArtifactsDiff(a *app) *cobra.Command {
	c := diffCommand{app: a}
	cmd := &cobra.Command{
		Use:   "diff SESSION [PHASE | PHASE..PHASE] [-- PATH...]",
		Short: "Compare a session's files with its start, another phase or another session",
		Long: "Compare trees of files, as a patch that `git apply` takes:\n\n" +
			"  SESSION              the tree at the session's start, and its newest tree\n" +
			"  SESSION PHASE        the changes of PHASE, to review before `maestro approve` or `maestro reject`;\n" +
			"                       with --redone, those since its work was last sent back\n" +
			"  SESSION PHASE..PHASE the trees after two phases; an empty side is the start, or the newest tree\n" +
			"  --with OTHER[:PHASE] the session's tree (after PHASE, if given), and that of another session\n\n" +
			"The tree after a phase has the work of the phase and of all phases that it depends on. A PATH is a file, a directory or " +
			"a pattern.",
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
	flags.BoolVar(&c.Redone, "redone", false, "with PHASE: its changes since its work was last sent back")
	flags.BoolVar(&c.Stat, "stat", false, "list files with counts of added and removed lines")
	flags.BoolVar(&c.Binary, "binary", false, "include binary files in the patch")
	return a.addReadingFlags(cmd)
}

func (c *diffCommand) run(ctx context.Context, args []string) error {
	c.Session, c.Which = args[0], strings.Join(args[1:], "")
	if c.With != "" && strings.Contains(c.Which, "..") {
		return usagef("%s compares two phases; with --with, give at most one phase", c.Which)
	}
	doc, err := ask(ctx, c.connector, c.served(c.storeBase), httpapi.DiffSession, c.DiffInput)
	if err != nil {
		return err
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
		c.printErr("the texts of %s are left out, because all would be too large; name files: -- PATH...",
			textfmt.Count(omitted, "file"))
	}
	if doc.Truncated {
		c.printErr("there are more than %s; name files or directories: -- PATH...", textfmt.Count(len(doc.Files), "file"))
	}
}

// diffColour is the colour of a line of a unified difference.
func diffColour(line string) terminal.Colour {
	for _, head := range []string{
		"diff --git ", "index ", "--- ", "+++ ", "old mode ", "new mode ", "new file mode ",
		"deleted file mode ",
	} {
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
	for _, f := range files {
		plus, minus := terminal.Painted(fmt.Sprintf("+%d", f.Added), terminal.Green), terminal.Painted(fmt.Sprintf("-%d", f.Removed),
			terminal.Red)
		if f.Binary {
			plus, minus = terminal.Painted("binary", terminal.Dim), terminal.Cell{}
		}
		t.Add(safetext.Name(f.Path), f.Change, plus, minus)
	}
	t.Write(c.stdout)
	c.printErr("%s", statOf(files))
}

// statOf counts files and their lines.
func statOf(files []control.ChangedFile) string {
	added, removed := 0, 0
	for _, f := range files {
		added, removed = added+f.Added, removed+f.Removed
	}
	return fmt.Sprintf("%s, +%d -%d lines", textfmt.Count(len(files), "file"), added, removed)
}
