package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/config"
	"github.com/maestro-hive/maestro/internal/hiveimport"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
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

func newCheckpointsImport(a *app) *cobra.Command {
	var teamFile, sessionID string
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Import a session from an export, or from a checkpoint of Maestro Hive 1.0",
		Long: "Import a session into the store. FILE is an archive of `checkpoints export`, or a checkpoint of Maestro Hive 1.0, which needs --team: " +
			"the outputs of each completed phase become the file " + hiveimport.Folder + "/<phase>.json, its decisions decisions.\n\n" +
			"Everything is verified first; an import is complete or changes nothing. The session is closed: continue it with `maestro resume`.",
		Example: "  maestro checkpoints import web-1" + archiveSuffix + "\n  maestro checkpoints import checkpoint_design.json --team team.yaml --session shortener",
		Args:    cmdline.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.importFile(cmd.Context(), args[0], teamFile, sessionID)
		},
	}
	cmd.Flags().StringVar(&teamFile, "team", "", "team file for a checkpoint of Maestro Hive")
	cmd.Flags().StringVar(&sessionID, "session", "", "id of the session in this store (default: unchanged)")
	a.addStoreFlags(cmd)
	return cmd
}

func (a *app) importFile(ctx context.Context, file, teamFile, sessionID string) error {
	if sessionID != "" {
		if err := spec.CheckSession(sessionID); err != nil {
			return usagef("--session: %w", err)
		}
	}
	namespace, err := a.namespace()
	if err != nil {
		return err
	}
	path := file
	if !filepath.IsAbs(path) {
		path = filepath.Join(a.env.Dir, file)
	}
	f, err := os.Open(path)
	if err != nil {
		return usagef("%w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	r := bufio.NewReader(f)
	beginning, err := r.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return usagef("%s: %w", file, err)
	}
	key := session.Key{Namespace: namespace, Session: sessionID}
	var doc importedDocument
	if bytes.Equal(beginning, []byte{0x1f, 0x8b}) {
		doc, err = a.importArchive(ctx, file, r, key, teamFile)
	} else {
		doc, err = a.importHive(ctx, file, r, key, teamFile)
	}
	if errors.Is(err, store.ErrSessionExists) {
		return usagef("%w; choose another --session", err)
	}
	if err != nil {
		return err
	}
	for _, note := range doc.Notes {
		a.printErr("%s", safetext.Line(note))
	}
	if a.output == outputJSON {
		return a.printJSON(doc)
	}
	a.print("%s", doc.Session)
	a.printErr("imported session %s with the work of %s; resume it with `%s`", doc.Session, terminal.Dash(strings.Join(doc.Phases, ", ")), a.commandLine("resume "+doc.Session))
	return nil
}

// importArchive imports what `checkpoints export` wrote.
func (a *app) importArchive(ctx context.Context, file string, r io.Reader, key session.Key, teamFile string) (importedDocument, error) {
	if teamFile != "" {
		return importedDocument{}, usagef("%s is an archive, which includes its team; to use another team, run `maestro resume SESSION --team %s` afterwards", file, teamFile)
	}
	s, err := a.openStoreToWrite()
	if err != nil {
		return importedDocument{}, err
	}
	in, err := s.ImportSession(ctx, r, key.Namespace, key.Session)
	var fault *store.ArchiveError
	switch {
	case errors.As(err, &fault):
		return importedDocument{}, usagef("%s: %w", file, err)
	case err != nil:
		return importedDocument{}, err
	}
	key.Session = in.Session
	doc := importedDocument{Session: in.Session, Checkpoint: in.Head, Phases: []string{}, Notes: []string{}}
	e, err := s.Execution(key)
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

// importHive imports a checkpoint of Maestro Hive.
func (a *app) importHive(ctx context.Context, file string, r io.Reader, key session.Key, teamFile string) (importedDocument, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxHive+1))
	switch {
	case err != nil:
		return importedDocument{}, usagef("%s: %w", file, err)
	case len(data) > maxHive:
		return importedDocument{}, usagef("%s is larger than %s, the limit for a checkpoint of Maestro Hive", file, textfmt.Size(maxHive))
	}
	c, err := hiveimport.Parse(data)
	if json.Valid(data) && !hiveimport.Recognise(data) || !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return importedDocument{}, usagef("%s is neither an archive of `maestro checkpoints export` nor a checkpoint of Maestro Hive 1.0", file)
	}
	if err != nil {
		return importedDocument{}, inFile(file, err)
	}
	if teamFile == "" {
		return importedDocument{}, usagef("%s is a checkpoint of Maestro Hive; give the team that continues it with --team FILE", file)
	}
	t, err := config.LoadTeam(teamFile)
	if err != nil {
		return importedDocument{}, err
	}
	work, err := c.Convert(t)
	if err != nil {
		return importedDocument{}, inFile(file, err)
	}
	if key.Session == "" {
		key.Session = work.Session
	}
	if err := spec.CheckSession(key.Session); err != nil {
		return importedDocument{}, usagef("%s: workflow_context.workflow_id: %w; give an id with --session", file, err)
	}
	s, err := a.openStoreToWrite()
	if err != nil {
		return importedDocument{}, err
	}
	m := &migration{store: s, team: t, work: work, key: key, now: a.env.Now().UTC()}
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
