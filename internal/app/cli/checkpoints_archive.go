package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/hiveimport"
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
	*app
	out         string
	transcripts bool
}

func newCheckpointsExport(a *app) *cobra.Command {
	c := exportCommand{app: a}
	cmd := &cobra.Command{
		Use:   "export SESSION",
		Short: "Export a session to a file, for another store",
		Long: "Write everything needed to resume a session (its checkpoints, records, files and team) to one archive. All data is " +
			"verified. " +
			"`checkpoints import` imports it into another store. Transcripts, stored answers and the conversations of agent programs " +
			"are included only with --transcripts.",
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVar(&c.out, "out", "", "file to write (default: SESSION"+archiveSuffix+")")
	cmd.Flags().BoolVar(&c.transcripts, "transcripts", false, "include transcripts and conversations of agents")
	return a.addStoreFlags(cmd)
}

func (c *exportCommand) run(ctx context.Context, sessionID string) error {
	s, key, err := c.stored(ctx, sessionID)
	if err != nil {
		return err
	}
	out := cmp.Or(c.out, sessionID+archiveSuffix)
	doc := exportedDocument{File: out}
	f, err := os.OpenFile(c.absPath(out), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return usagef("%s already exists; choose another --out", out)
	case err != nil:
		return failf("%w", err)
	}
	doc.Archive, err = s.ExportSession(ctx, key, c.transcripts, f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(f.Name()) // an import refuses a part of an archive, too
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

// maxHive bounds a checkpoint of Maestro Hive, in bytes.
const maxHive = 64 << 20

// importedDocument is the document of `checkpoints import -o json`.
type importedDocument struct {
	Session    string      `json:"session"`
	Checkpoint spec.Digest `json:"checkpoint"`
	// Phases are those that have their work.
	Phases []string `json:"phases"`
	// Notes lists differences from the file.
	Notes []string `json:"notes"`
}

// importCommand is `checkpoints import`.
type importCommand struct {
	*app
	// file is what is imported, team a team file, and session an id.
	file, team, session string
}

func newCheckpointsImport(a *app) *cobra.Command {
	c := importCommand{app: a}
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Import a session from an export, or from a checkpoint of Maestro Hive 1.0",
		Long: "Import a session into the store. FILE is an archive of `checkpoints export`, or a checkpoint of Maestro Hive 1.0, " +
			"which needs --team: " +
			"the outputs of each completed phase become the file " + hiveimport.Folder + "/<phase>.json, its decisions decisions.\n\n" +
			"Everything is verified first; an import is complete or changes nothing. The session is closed: continue it with " +
			"`maestro resume`.",
		Example: "  maestro checkpoints import web-1" + archiveSuffix +
			"\n  maestro checkpoints import checkpoint_design.json --team team.yaml --session shortener",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.file = args[0]
			return c.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&c.team, "team", "", "team file for a checkpoint of Maestro Hive")
	cmd.Flags().StringVar(&c.session, "session", "", "id of the session in this store (default: unchanged)")
	return a.addStoreFlags(cmd)
}

func (c *importCommand) run(ctx context.Context) error {
	if c.session != "" {
		if err := spec.CheckSession(c.session); err != nil {
			return usagef("--session: %w", err)
		}
	}
	f, err := os.Open(c.absPath(c.file))
	if err != nil {
		return usagef("%w", err)
	}
	defer f.Close()        //nolint:errcheck // only read
	_ = c.stateDirectory() // root reads its own file, and the owner's profile
	namespace, err := c.namespace()
	if err != nil {
		return err
	}
	r := bufio.NewReader(f)
	beginning, err := r.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return usagef("%s: %w", c.file, err)
	}
	key := session.Key{Namespace: namespace, Session: c.session}
	var doc importedDocument
	if bytes.Equal(beginning, []byte{0x1f, 0x8b}) {
		doc, err = c.archive(ctx, r, key)
	} else {
		doc, err = c.hive(ctx, r, key)
	}
	if errors.Is(err, store.ErrSessionExists) {
		return usagef("%w; choose another --session", err)
	}
	if err != nil {
		return err
	}
	for _, note := range doc.Notes {
		c.printErr("%s", safetext.Line(note))
	}
	if c.output == outputJSON {
		return c.printJSON(doc)
	}
	c.print("%s", doc.Session)
	work := "without finished phases"
	if len(doc.Phases) > 0 {
		work = "with the work of " + strings.Join(doc.Phases, ", ")
	}
	c.printErr("imported session %s %s; resume it with `%s`", doc.Session, work, c.commandLine("resume "+doc.Session))
	return nil
}

// archive imports what `checkpoints export` wrote.
func (c *importCommand) archive(ctx context.Context, r io.Reader, key session.Key) (importedDocument, error) {
	if c.team != "" {
		return importedDocument{}, usagef("%s is an archive, which includes its team; to use another team, run `maestro resume "+
			"SESSION --team %s` afterwards", c.file, c.team)
	}
	s, err := c.openStore()
	if err != nil {
		return importedDocument{}, err
	}
	in, err := s.ImportSession(ctx, r, key.Namespace, key.Session)
	var fault *store.ArchiveError
	switch {
	case errors.As(err, &fault):
		return importedDocument{}, usagef("%s: %w", c.file, err)
	case err != nil:
		return importedDocument{}, err
	}
	key.Session = in.Session
	doc := importedDocument{Session: in.Session, Checkpoint: in.Head, Phases: []string{}, Notes: []string{}}
	e, err := s.State.Execution(ctx, key)
	if err != nil {
		return doc, err
	}
	for _, p := range e.Phases {
		if p.Status.Done() {
			doc.Phases = append(doc.Phases, p.Name)
		}
	}
	return doc, nil
}

// hive imports a checkpoint of Maestro Hive.
func (c *importCommand) hive(ctx context.Context, r io.Reader, key session.Key) (importedDocument, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxHive+1))
	switch {
	case err != nil:
		return importedDocument{}, usagef("%s: %w", c.file, err)
	case len(data) > maxHive:
		return importedDocument{}, usagef("%s is larger than %s, the limit for a checkpoint of Maestro Hive", c.file,
			textfmt.Size(maxHive))
	}
	parsed, err := hiveimport.Parse(data)
	if json.Valid(data) && !hiveimport.Recognise(data) || !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return importedDocument{}, usagef("%s is neither an archive of `maestro checkpoints export` nor a checkpoint of "+
			"Maestro Hive 1.0", c.file)
	}
	if err != nil {
		return importedDocument{}, inFile(c.file, err)
	}
	if c.team == "" {
		return importedDocument{}, usagef("%s is a checkpoint of Maestro Hive; give the team that continues it with --team FILE",
			c.file)
	}
	t, err := c.teamNamed(ctx, c.team)
	if err != nil {
		return importedDocument{}, err
	}
	work, err := parsed.Convert(t)
	if err != nil {
		return importedDocument{}, inFile(c.file, err)
	}
	if key.Session == "" {
		key.Session = work.Session
	}
	if err := spec.CheckSession(key.Session); err != nil {
		return importedDocument{}, usagef("%s: workflow_context.workflow_id: %w; give an id with --session", c.file, err)
	}
	s, err := c.openStore()
	if err != nil {
		return importedDocument{}, err
	}
	m := &migration{store: s, team: t, work: work, key: key, now: c.now().UTC()}
	head, err := m.importSession(ctx)
	if err != nil {
		return importedDocument{}, err
	}
	doc := importedDocument{Session: key.Session, Checkpoint: head, Phases: []string{}, Notes: append([]string{}, work.Notes...)}
	for _, p := range work.Phases {
		doc.Phases = append(doc.Phases, p.Name)
	}
	return doc, nil
}

// inFile names the file before each fault.
func inFile(file string, err error) error {
	return usagef("%s: %s", file, strings.ReplaceAll(err.Error(), "\n", "\n  "+file+": "))
}
