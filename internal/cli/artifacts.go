package cli

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// exportDocument is the document of `artifacts get -o json`.
type exportDocument struct {
	Session    string      `json:"session"`
	Checkpoint spec.Digest `json:"checkpoint"`
	// Out is the directory, absolute; Files are what was written, relative to it.
	Out   string   `json:"out"`
	Files []string `json:"files"`
}

func newArtifacts(a *app) *cobra.Command {
	return group("artifacts", "List, get and compare the files that a session created", newArtifactsList(a), newArtifactsGet(a), newArtifactsDiff(a))
}

// artifactsCommand is `artifacts list` and `artifacts get`.
type artifactsCommand struct {
	*console
	*connector
	out       string
	overwrite bool
}

func newArtifactsList(a *app) *cobra.Command {
	c := artifactsCommand{console: a.console, connector: a.connector}
	cmd := &cobra.Command{
		Use:   "list SESSION",
		Short: "List the files that a session's assignments created or changed",
		Args:  cmdline.Arguments(1, 1),
		RunE:  func(cmd *cobra.Command, args []string) error { return c.list(cmd.Context(), args[0]) },
	}
	a.addReadingFlags(cmd)
	return cmd
}

func newArtifactsGet(a *app) *cobra.Command {
	c := artifactsCommand{console: a.console, connector: a.connector}
	cmd := &cobra.Command{
		Use:   "get SESSION [PATH...] --out DIR",
		Short: "Write a session's files to a directory: selected files, or the whole result",
		Long:  "Write files of a session's newest checkpoint to a directory. A PATH is a file, a directory or a pattern like \"docs/**\"; without one, the whole result tree is written, including the workspace's files.",
		Args:  cmdline.Arguments(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.out == "" {
				return usagef("--out is missing; give the directory to write to")
			}
			return c.get(cmd.Context(), args[0], args[1:])
		},
	}
	cmd.Flags().StringVar(&c.out, "out", "", "directory to write to; created if missing")
	cmd.Flags().BoolVar(&c.overwrite, "overwrite", false, "overwrite existing files")
	a.addReadingFlags(cmd)
	return cmd
}

func (c *artifactsCommand) list(ctx context.Context, sessionID string) error {
	p, err := c.reading(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	doc, err := p.reviews.Artifacts(ctx, sessionID)
	if err != nil {
		return c.explainIn(ctx, p, err)
	}
	c.printDamage(doc.Damage)
	if c.output == outputJSON {
		return c.printJSON(doc)
	}
	if len(doc.Artifacts) == 0 {
		c.printErr("no phase has created a file yet (newest checkpoint: after %s)", doc.Phase)
		return nil
	}
	t := c.table("PATH", "SIZE", "BY", "SHA256")
	for _, f := range doc.Artifacts {
		bytes, digest := textfmt.Size(f.Size), f.SHA256.Short()
		if f.SHA256 == "" {
			bytes, digest = "link", "-"
		}
		t.Add(terminal.Plain(safetext.Name(f.Path)), terminal.Plain(bytes), terminal.Plain(f.String()), terminal.Painted(digest, terminal.Dim))
	}
	t.Write(c.stdout)
	return nil
}

func (c *artifactsCommand) get(ctx context.Context, sessionID string, wanted []string) error {
	p, err := c.reading(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	newest, err := p.reviews.Selected(ctx, sessionID, wanted)
	if err != nil {
		return c.explainIn(ctx, p, err)
	}
	c.printDamage(newest.Damage)
	out, err := filepath.Abs(c.out)
	if err != nil {
		return usagef("--out: %w", err)
	}
	files, err := newest.Work.Store.Content.Export(ctx, newest.Work.Tree, wanted, out, c.overwrite)
	if errors.Is(err, session.ErrNotFound) && len(wanted) > 0 {
		return usagef("%w", err)
	}
	if err != nil {
		return err
	}
	if c.output == outputJSON {
		return c.printJSON(exportDocument{Session: sessionID, Checkpoint: newest.Checkpoint, Out: out, Files: files})
	}
	for _, f := range files {
		c.print("%s", safetext.Name(f))
	}
	c.printErr("wrote %s to %s (checkpoint after %s)", textfmt.Count(len(files), "file"), out, newest.Phase)
	return nil
}
