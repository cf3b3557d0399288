package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/models/agent"
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
	return group("artifacts", "List, get and compare the files that a session created", newArtifactsList(a), newArtifactsGet(a), newArtifactsDiff(a))
}

// artifactsCommand is `artifacts list` and `artifacts get`.
type artifactsCommand struct {
	*console
	*connector
	out       string
	of        string
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
		Long: "Write files of a session's newest checkpoint to a directory. A PATH is a file, a directory or a pattern like \"docs/**\"; without one, the whole result tree is written, including the workspace's files. " +
			"With --of, they are the files as the last attempt of an assignment left them, to look at, or to correct and supply.",
		Args: cmdline.Arguments(1, -1),
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
	a.addReadingFlags(cmd)
	return cmd
}

func (c *artifactsCommand) list(ctx context.Context, sessionID string) error {
	p, err := c.reading(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	doc, err := invoke(ctx, p, httpapi.ListArtifacts, httpapi.OfSession{Session: sessionID})
	if err != nil {
		return c.explainIn(ctx, p, err)
	}
	c.printDamage(doc.Damage)
	return c.result(doc, func() {
		if len(doc.Artifacts) == 0 {
			c.printErr("no phase has created a file yet (newest checkpoint: after %s)", doc.Phase)
			return
		}
		t := c.table("PATH", "SIZE", "BY", "SHA256")
		for _, f := range doc.Artifacts {
			bytes, digest := textfmt.Size(f.Size), f.SHA256.Short()
			if f.SHA256 == "" {
				bytes, digest = "link", "-"
			}
			t.Add(safetext.Name(f.Path), bytes, f.String(), terminal.Painted(digest, terminal.Dim))
		}
		t.Write(c.stdout)
	})
}

func (c *artifactsCommand) get(ctx context.Context, sessionID string, wanted []string) error {
	p, err := c.reading(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	newest, err := p.newest(ctx, sessionID, wanted)
	if err != nil {
		return c.explainIn(ctx, p, err)
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
func (c *artifactsCommand) export(ctx context.Context, s *store.Store, tree spec.Digest, wanted []string) (files []string, err error) {
	if c.out, err = filepath.Abs(c.out); err != nil {
		return nil, usagef("--out: %w", err)
	}
	files, err = s.Content.Export(ctx, tree, wanted, c.out, c.overwrite)
	if errors.Is(err, session.ErrNotFound) && len(wanted) > 0 {
		err = usagef("%w", err)
	}
	return files, err
}

func (c *artifactsCommand) printWritten(files []string, from string) {
	for _, f := range files {
		c.print("%s", safetext.Name(f))
	}
	c.printErr("wrote %s to %s (%s)", textfmt.Count(len(files), "file"), c.out, from)
}

// getLeft writes the files that the last attempt of an assignment left.
func (c *artifactsCommand) getLeft(ctx context.Context, sessionID string, wanted []string) error {
	id, err := spec.ParseAssignmentID(c.of)
	if err != nil {
		return usagef("--of: %w", err)
	}
	s, key, err := c.stored(sessionID)
	if err != nil {
		return err
	}
	record, err := s.State.Record(ctx, state.Assignment{Key: key, AssignmentID: id})
	if err != nil {
		return err
	}
	tree := leftOf(record)
	if tree == "" {
		return usagef("session %s has no files of a finished attempt of %s; `%s` lists its assignments", sessionID, id, c.commandLine("status "+sessionID))
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
			if attempt.Left != "" {
				return attempt.Left
			}
		}
	}
	return ""
}
