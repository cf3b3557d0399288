package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/store"
)

// archiveSuffix is how the name of an archive ends unless --out says otherwise.
const archiveSuffix = ".maestro.tar.gz"

// exportedDocument is the document of `checkpoints export -o json`.
type exportedDocument struct {
	File string `json:"file"`
	store.Archive
}

// exportCommand is `checkpoints export`.
type exportCommand struct {
	*console
	*storeOpener
	cwd         string
	out         string
	transcripts bool
}

func newCheckpointsExport(a *app) *cobra.Command {
	c := exportCommand{console: a.console, storeOpener: a.storeOpener, cwd: a.env.Dir}
	cmd := &cobra.Command{
		Use:   "export SESSION",
		Short: "Export a session to a file, for another store",
		Long: "Write everything needed to resume a session (its checkpoints, records, files and team) to one archive. All data is verified. " +
			"`checkpoints import` imports it into another store. Transcripts, stored answers and the conversations of agent programs are included only with --transcripts.",
		Args: cmdline.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVar(&c.out, "out", "", "file to write (default: SESSION"+archiveSuffix+")")
	cmd.Flags().BoolVar(&c.transcripts, "transcripts", false, "include transcripts and conversations of agents")
	a.addStoreFlags(cmd)
	return cmd
}

func (c *exportCommand) run(ctx context.Context, sessionID string) error {
	s, key, err := c.stored(sessionID)
	if err != nil {
		return err
	}
	out := cmp.Or(c.out, sessionID+archiveSuffix)
	path := absPath(c.cwd, out)
	if _, err := os.Lstat(path); err == nil {
		return usagef("%s already exists; choose another --out", out)
	}
	doc := exportedDocument{File: out}
	if doc.Archive, err = writeWhole(path, func(f *os.File) (store.Archive, error) {
		return s.ExportSession(ctx, key, c.transcripts, f)
	}); err != nil {
		if errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrNotFound) {
			return failf("%w\nnothing was exported; `maestro checkpoints verify %s` lists the damage", err, sessionID)
		}
		return failf("%w", err)
	}
	return c.result(doc, func() {
		c.print("%s: session %s, %s, %s and %s (%s)", out, sessionID, textfmt.Count(doc.Checkpoints, "checkpoint"),
			textfmt.Count(doc.Records, "record"), textfmt.Count(doc.Blobs, "blob"), textfmt.Size(doc.Bytes))
	})
}

// writeWhole writes a file with mode 0600, completely or not at all.
func writeWhole(path string, write func(f *os.File) (store.Archive, error)) (out store.Archive, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".maestro-export-*")
	if err != nil {
		return out, err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it is gone after the rename
	out, err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return out, err
	}
	// A link, unlike a rename, does not replace a file created meanwhile.
	if err := os.Link(f.Name(), path); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return out, fmt.Errorf("%s already exists; choose another --out", path)
		}
		return out, err
	}
	return out, nil
}
