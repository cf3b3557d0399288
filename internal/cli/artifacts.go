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
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// artifactsDocument is the document of `artifacts list -o json`.
type artifactsDocument struct {
	Session string `json:"session"`
	// Checkpoint is the one that the list is of, and Phase the phase that it
	// was taken after.
	Checkpoint spec.Digest        `json:"checkpoint"`
	Phase      string             `json:"phase"`
	Artifacts  []session.Artifact `json:"artifacts"`
}

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

func newArtifactsList(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list SESSION",
		Short: "List the files that a session's assignments created or changed",
		Args:  cmdline.Arguments(1, 1),
		RunE:  func(cmd *cobra.Command, args []string) error { return a.listArtifacts(cmd.Context(), args[0]) },
	}
	a.addStoreFlags(cmd)
	return cmd
}

func newArtifactsGet(a *app) *cobra.Command {
	var out string
	var overwrite bool
	cmd := &cobra.Command{
		Use:   "get SESSION [PATH...] --out DIR",
		Short: "Write a session's files to a directory: selected files, or the whole result",
		Long:  "Write files of a session's newest checkpoint to a directory. A PATH is a file, a directory or a pattern like \"docs/**\"; without one, the whole result tree is written, including the workspace's files.",
		Args:  cmdline.Arguments(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return usagef("--out is missing; give the directory to write to")
			}
			return a.getArtifacts(cmd.Context(), args[0], args[1:], out, overwrite)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "directory to write to; created if missing")
	cmd.Flags().BoolVar(&overwrite, "overwrite", false, "overwrite existing files")
	a.addStoreFlags(cmd)
	return cmd
}

// newest is a session's newest checkpoint that can be read. Damage is printed.
func (a *app) newest(ctx context.Context, s *store.Store, key session.Key) (store.StoredCheckpoint, error) {
	chain, err := a.checkpointChain(ctx, s, key)
	if err != nil {
		return store.StoredCheckpoint{}, err
	}
	return chain[0], nil
}

// latest opens the store for a session's newest checkpoint that can be read.
func (a *app) latest(ctx context.Context, sessionID string) (*store.Store, store.StoredCheckpoint, error) {
	s, key, err := a.stored(sessionID)
	if err != nil {
		return nil, store.StoredCheckpoint{}, err
	}
	c, err := a.newest(ctx, s, key)
	return s, c, err
}

func (a *app) listArtifacts(ctx context.Context, sessionID string) error {
	_, c, err := a.latest(ctx, sessionID)
	if err != nil {
		return err
	}
	if a.output == outputJSON {
		doc := artifactsDocument{Session: sessionID, Checkpoint: c.Name, Phase: c.CurrentPhase, Artifacts: c.Artifacts}
		if doc.Artifacts == nil {
			doc.Artifacts = []session.Artifact{}
		}
		return a.printJSON(doc)
	}
	if len(c.Artifacts) == 0 {
		a.printErr("no phase has created a file yet (newest checkpoint: after %s)", c.CurrentPhase)
		return nil
	}
	t := terminal.NewTable(a.palette)
	t.Head("PATH", "SIZE", "BY", "SHA256")
	for _, f := range c.Artifacts {
		bytes, digest := textfmt.Size(f.Size), f.SHA256.Short()
		if f.SHA256 == "" {
			bytes, digest = "link", "-"
		}
		t.Add(terminal.Plain(safetext.Name(f.Path)), terminal.Plain(bytes), terminal.Plain(f.String()), terminal.Painted(digest, terminal.Dim))
	}
	t.Write(a.env.Stdout)
	return nil
}

func (a *app) getArtifacts(ctx context.Context, sessionID string, wanted []string, out string, overwrite bool) error {
	s, c, err := a.latest(ctx, sessionID)
	if err != nil {
		return err
	}
	if out, err = filepath.Abs(out); err != nil {
		return usagef("--out: %w", err)
	}
	files, err := s.Export(ctx, c.Tree, wanted, out, overwrite)
	if errors.Is(err, session.ErrNotFound) && len(wanted) > 0 {
		return usagef("%w", err)
	}
	if err != nil {
		return err
	}
	if a.output == outputJSON {
		return a.printJSON(exportDocument{Session: sessionID, Checkpoint: c.Name, Out: out, Files: files})
	}
	for _, f := range files {
		a.print("%s", safetext.Name(f))
	}
	a.printErr("wrote %s to %s (checkpoint after %s)", textfmt.Count(len(files), "file"), out, c.CurrentPhase)
	return nil
}
