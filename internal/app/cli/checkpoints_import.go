package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/hiveimport"
)

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
	*console
	*storeOpener
	cwd string
	// file is what is imported, team a team file, and session an id.
	file, team, session string
}

func newCheckpointsImport(a *app) *cobra.Command {
	c := importCommand{console: a.console, storeOpener: a.storeOpener, cwd: a.env.Dir}
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Import a session from an export, or from a checkpoint of Maestro Hive 1.0",
		Long: "Import a session into the store. FILE is an archive of `checkpoints export`, or a checkpoint of Maestro Hive 1.0, which needs --team: " +
			"the outputs of each completed phase become the file " + hiveimport.Folder + "/<phase>.json, its decisions decisions.\n\n" +
			"Everything is verified first; an import is complete or changes nothing. The session is closed: continue it with `maestro resume`.",
		Example: "  maestro checkpoints import web-1" + archiveSuffix + "\n  maestro checkpoints import checkpoint_design.json --team team.yaml --session shortener",
		Args:    cmdline.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.file = args[0]
			return c.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&c.team, "team", "", "team file for a checkpoint of Maestro Hive")
	cmd.Flags().StringVar(&c.session, "session", "", "id of the session in this store (default: unchanged)")
	a.addStoreFlags(cmd)
	return cmd
}

func (c *importCommand) run(ctx context.Context) error {
	if c.session != "" {
		if err := spec.CheckSession(c.session); err != nil {
			return usagef("--session: %w", err)
		}
	}
	f, err := os.Open(absPath(c.cwd, c.file))
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
		return importedDocument{}, usagef("%s is an archive, which includes its team; to use another team, run `maestro resume SESSION --team %s` afterwards", c.file, c.team)
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
		return importedDocument{}, usagef("%s is larger than %s, the limit for a checkpoint of Maestro Hive", c.file, textfmt.Size(maxHive))
	}
	parsed, err := hiveimport.Parse(data)
	if json.Valid(data) && !hiveimport.Recognise(data) || !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return importedDocument{}, usagef("%s is neither an archive of `maestro checkpoints export` nor a checkpoint of Maestro Hive 1.0", c.file)
	}
	if err != nil {
		return importedDocument{}, inFile(c.file, err)
	}
	if c.team == "" {
		return importedDocument{}, usagef("%s is a checkpoint of Maestro Hive; give the team that continues it with --team FILE", c.file)
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
