package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/bounded"
	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/config"
	"github.com/maestro-hive/maestro/internal/launch"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// maxRequirement bounds a requirement, in bytes.
const maxRequirement = 256 * 1024

// runOptions are the flags of `run`.
type runOptions struct {
	session   string
	workspace string
	include   []string
	file      string
	fromJira  string
	agents    string
	watch     bool
	course    courseFlags
	supplied  suppliedFlags
}

func newRun(a *app) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run TEAM [TEXT | -f FILE | -]",
		Short: "Start a session of a team on a requirement",
		Long: "Start a session: the team of a team file works on a requirement, which is given as text, in a file (-f), or on standard input (-).\n\n" +
			"The session's id is printed once a worker has admitted the session; from then on it runs independently of this command.",
		Example: "  maestro run team.yaml \"A URL shortener in Go\"\n  maestro run team.yaml -f requirement.md --workspace . --watch\n" +
			"  maestro run team.yaml --from-jira MD-123\n  maestro run team.yaml -f requirement.md --from implementation --input design=docs/design.md",
		Args: cmdline.Arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), o, args) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.file, "file", "f", "", "file with the requirement")
	flags.StringVar(&o.session, "session", "", "id of the session (default: team name, date and a random part)")
	flags.StringVar(&o.workspace, "workspace", "", "directory whose files the session starts from (default: none); it is only read")
	flags.StringArrayVar(&o.include, "include", nil, "pattern of files to take although ignored or looking like secrets; repeatable")
	o.course.add(cmd)
	o.supplied.add(cmd)
	flags.StringVar(&o.fromJira, "from-jira", "", "KEY of a ticket whose text and attachments are the requirement; progress is posted to the ticket")
	flags.StringVar(&o.agents, "agents", "", "worker file that names the Jira of --from-jira (default: MAESTRO_AGENTS)")
	flags.BoolVar(&o.watch, "watch", false, "follow the session until it ends, and exit with its outcome")
	a.addPlainFlag(flags)
	a.addSessionFlags(cmd)
	return cmd
}

func (a *app) run(ctx context.Context, o runOptions, args []string) error {
	t, err := config.LoadTeam(args[0])
	if err != nil {
		return err
	}
	if err := checkRun(o, args[1:]); err != nil {
		return err
	}
	ticket, requirement, err := a.work(ctx, o, args[1:])
	if err != nil {
		return err
	}
	course, err := o.course.course(t)
	if err != nil {
		return err
	}
	conn, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	s, err := a.createStore(false)
	if err != nil {
		return err
	}
	l := starter{a, launch.Launcher{Conn: conn, Store: s, Now: a.env.Now}}
	next := launch.Session{ID: o.session, Team: t, Requirement: requirement, Course: course}
	if err := l.check(ctx, next); err != nil {
		return err
	}
	if next.Workspace, err = a.snapshot(ctx, s, o, t); err != nil {
		return err
	}
	next.Course.Source = a.source(ctx, o)
	if ticket != nil {
		next.ReportTo = ticket.Key
		a.warnNoNotifier(ctx, s, ticket)
		if next.Workspace, err = a.addAttachments(ctx, s, ticket, next.Workspace); err != nil {
			return err
		}
	}
	if err := a.supply(ctx, s, t, o.supplied, "", &next.Course); err != nil {
		return err
	}
	return l.start(ctx, next, o.watch)
}

// work is the requirement, and the ticket that it comes from; nil: none.
func (a *app) work(ctx context.Context, o runOptions, args []string) (*origin, string, error) {
	if o.fromJira == "" {
		requirement, err := a.requirement(o.file, args)
		return nil, requirement, err
	}
	ticket, err := a.fromJira(ctx, o.fromJira, o.agents)
	if err != nil {
		return nil, "", err
	}
	requirement, err := ticket.requirement()
	return ticket, requirement, err
}

// checkRun refuses flags that make no sense before anything is contacted.
func checkRun(o runOptions, text []string) error {
	switch {
	case o.fromJira != "" && (o.file != "" || len(text) > 0):
		return usagef("--from-jira %s excludes -f and TEXT; leave one out", o.fromJira)
	case o.fromJira == "" && o.agents != "":
		return usagef("--agents needs --from-jira")
	}
	if o.session != "" {
		if err := spec.CheckSession(o.session); err != nil {
			return usagef("--session: %w", err)
		}
	}
	return checkWorkspace(o.workspace, o.include)
}

// checkWorkspace refuses a workspace that is no directory, and patterns without one.
func checkWorkspace(dir string, include []string) error {
	if dir == "" {
		if len(include) > 0 {
			return usagef("--include needs --workspace")
		}
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return usagef("--workspace: %s is not a readable directory", dir)
	}
	return nil
}

// requirement reads what the team shall do: from the arguments, a file or
// standard input.
func (a *app) requirement(file string, args []string) (string, error) {
	var text, from string
	switch {
	case file != "" && len(args) > 0:
		return "", usagef("-f %s and TEXT exclude each other; leave one out", file)
	case file == "" && len(args) == 0:
		return "", usagef("missing requirement; give it as TEXT, in a file (-f FILE), or on standard input (-)")
	case file == "-" || (file == "" && args[0] == "-"):
		data, err := io.ReadAll(io.LimitReader(a.env.Stdin, maxRequirement+1))
		if err != nil {
			return "", failf("standard input cannot be read: %w", err)
		}
		text, from = string(data), "standard input"
	case file != "":
		data, err := bounded.ReadFile(file, maxRequirement)
		if err != nil {
			return "", usagef("the requirement cannot be read: %w", err)
		}
		text, from = string(data), file
	default:
		text, from = args[0], "the requirement"
	}
	return checkRequirement(strings.TrimPrefix(text, "\uFEFF"), from)
}

// checkRequirement refuses a requirement that no team can work on.
func checkRequirement(text, from string) (string, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return "", usagef("%s is empty; describe what the team should do", from)
	case len(text) > maxRequirement:
		return "", usagef("%s is longer than %d KiB; put longer texts into files of --workspace", from, maxRequirement/1024)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return "", usagef("%s is not UTF-8 text; save it as UTF-8", from)
	}
	return text, nil
}

// snapshot stores the files that the session starts from.
func (a *app) snapshot(ctx context.Context, s *store.Store, o runOptions, t spec.Team) (spec.Digest, error) {
	if o.workspace == "" {
		return s.PutManifest(ctx, cas.Manifest{})
	}
	snap, err := s.Snapshot(ctx, o.workspace, cas.SnapshotOptions{Ignore: t.Ignore, Include: o.include})
	if err != nil {
		return "", err
	}
	dir, err := filepath.Abs(o.workspace)
	if err != nil {
		dir = o.workspace
	}
	a.printErr("the session starts from %s (%s) of %s", textfmt.Count(snap.Files, "file"), textfmt.Size(snap.Bytes), dir)
	if len(snap.Private) > 0 {
		a.printErr("not taken, because they look like secrets: %s (--include takes them)", firstOf(snap.Private, 5))
	}
	return snap.Manifest, nil
}

// firstOf names the first few of a list.
func firstOf(all []string, few int) string {
	if len(all) <= few {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:few], ", "), len(all)-few)
}
