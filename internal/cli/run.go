package cli

import (
	"context"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/bounded"
	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/config"
	"github.com/maestro-hive/maestro/internal/launch"
	"github.com/maestro-hive/maestro/internal/spec"
)

// maxRequirement bounds a requirement, in bytes.
const maxRequirement = 256 * 1024

// runCommand is `run`.
type runCommand struct {
	*app
	session   string
	workspace workspaceFlags
	file      string
	fromJira  string
	agents    string
	watch     bool
	course    courseFlags
	supplied  suppliedFlags
}

func newRun(a *app) *cobra.Command {
	c := runCommand{app: a}
	cmd := &cobra.Command{
		Use:   "run TEAM [TEXT | -f FILE | -]",
		Short: "Start a session of a team on a requirement",
		Long: "Start a session: the team of a team file works on a requirement, which is given as text, in a file (-f), or on standard input (-).\n\n" +
			"The session's id is printed once a worker has admitted the session; from then on it runs independently of this command.",
		Example: "  maestro run team.yaml \"A URL shortener in Go\"\n  maestro run team.yaml -f requirement.md --workspace . --watch\n" +
			"  maestro run team.yaml --from-jira MD-123\n  maestro run team.yaml -f requirement.md --from implementation --input design=docs/design.md",
		Args: cmdline.Arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&c.file, "file", "f", "", "file with the requirement")
	flags.StringVar(&c.session, "session", "", "id of the session (default: team name, date and a random part)")
	c.workspace.add(cmd, "directory whose files the session starts from (default: none); it is only read")
	c.course.add(cmd)
	c.supplied.add(cmd)
	flags.StringVar(&c.fromJira, "from-jira", "", "KEY of a ticket whose text and attachments are the requirement; progress is posted to the ticket")
	flags.StringVar(&c.agents, "agents", "", "worker file that names the Jira of --from-jira (default: MAESTRO_AGENTS)")
	flags.BoolVar(&c.watch, "watch", false, "follow the session until it ends, and exit with its outcome")
	a.addPlainFlag(flags)
	a.addSessionFlags(cmd)
	return cmd
}

func (c *runCommand) run(ctx context.Context, args []string) error {
	t, err := config.LoadTeam(args[0])
	if err != nil {
		return err
	}
	if err := c.check(args[1:]); err != nil {
		return err
	}
	ticket, requirement, err := c.work(ctx, args[1:])
	if err != nil {
		return err
	}
	course, err := c.course.course(t)
	if err != nil {
		return err
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	s, err := c.createStore(false)
	if err != nil {
		return err
	}
	l := starter{c.app, launch.Launcher{Conn: conn, Store: s, Now: c.env.Now}}
	next := launch.Session{ID: c.session, Team: t, Requirement: requirement, Course: course}
	if err := l.check(ctx, next); err != nil {
		return err
	}
	if next.Workspace, err = c.workspace.snapshot(ctx, c.console, s, t); err != nil {
		return err
	}
	next.Course.Source = c.workspace.source(ctx, c.env)
	if ticket != nil {
		next.ReportTo = ticket.Key
		ticket.warnNoNotifier(ctx, c.console, s, c.env.Now())
		if next.Workspace, err = ticket.addAttachments(ctx, c.console, s, next.Workspace); err != nil {
			return err
		}
	}
	if err := c.supplied.store(ctx, c.console, s, t, "", &next.Course); err != nil {
		return err
	}
	return l.start(ctx, next, c.watch)
}

// work is the requirement, and the ticket that it comes from; nil: none.
func (c *runCommand) work(ctx context.Context, args []string) (*origin, string, error) {
	if c.fromJira == "" {
		requirement, err := requirementOf(c.env.Stdin, c.file, args)
		return nil, requirement, err
	}
	ticket, err := fetchTicket(ctx, c.console, c.env, c.fromJira, c.agents)
	if err != nil {
		return nil, "", err
	}
	requirement, err := ticket.requirement()
	return ticket, requirement, err
}

// check refuses flags that make no sense before anything is contacted.
func (c *runCommand) check(text []string) error {
	switch {
	case c.fromJira != "" && (c.file != "" || len(text) > 0):
		return usagef("--from-jira %s excludes -f and TEXT; leave one out", c.fromJira)
	case c.fromJira == "" && c.agents != "":
		return usagef("--agents needs --from-jira")
	}
	if c.session != "" {
		if err := spec.CheckSession(c.session); err != nil {
			return usagef("--session: %w", err)
		}
	}
	return c.workspace.check()
}

// requirementOf reads what the team shall do: from the arguments, a file or
// standard input.
func requirementOf(stdin io.Reader, file string, args []string) (string, error) {
	var text, from string
	switch {
	case file != "" && len(args) > 0:
		return "", usagef("-f %s and TEXT exclude each other; leave one out", file)
	case file == "" && len(args) == 0:
		return "", usagef("missing requirement; give it as TEXT, in a file (-f FILE), or on standard input (-)")
	case file == "-" || (file == "" && args[0] == "-"):
		data, err := io.ReadAll(io.LimitReader(stdin, maxRequirement+1))
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
