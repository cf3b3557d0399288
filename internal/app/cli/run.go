package cli

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/faces/client"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/bounded"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/store"
)

// runCommand is `run`.
type runCommand struct {
	*app
	session   string
	workspace workspaceFlags
	file      string
	fromJira  string
	agents    string
	watch     bool
	labels    []string
	course    courseFlags
	supplied  suppliedFlags
}

func newRun(a *app) *cobra.Command {
	c := runCommand{app: a}
	cmd := &cobra.Command{
		Use:   "run TEAM [TEXT | -f FILE | -]",
		Short: "Start a session of a team on a requirement",
		Long: "Start a session: the team of a team file, or a registered team (NAME, or NAME@DIGEST for a version), works on a requirement, which is given as text, in a file (-f), or on standard input (-).\n\n" +
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
	flags.StringArrayVar(&c.labels, "label", nil, "KEY=VALUE by which the session is found; may be given several times")
	flags.StringVar(&c.fromJira, "from-jira", "", "KEY of a ticket whose text and attachments are the requirement; progress is posted to the ticket")
	flags.StringVar(&c.agents, "agents", "", "worker file that names the Jira of --from-jira (default: MAESTRO_AGENTS)")
	flags.BoolVar(&c.watch, "watch", false, "follow the session until it ends, and exit with its outcome")
	a.addPlainFlag(flags)
	a.addServedFlags(cmd)
	return cmd
}

func (c *runCommand) run(ctx context.Context, args []string) error {
	server, err := c.client()
	if err != nil {
		return err
	}
	t, reference, err := c.teamFor(ctx, server, args[0])
	if err != nil {
		return err
	}
	if err := c.check(args[1:], server != nil); err != nil {
		return err
	}
	ticket, requirement, err := c.work(ctx, args[1:])
	if err != nil {
		return err
	}
	if err := inputError(c.course.Check(t)); err != nil {
		return err
	}
	p, err := c.plane(ctx, func(ctx context.Context) (*control.Base, func(), error) {
		return c.startingBase(ctx, func() (*store.Store, error) { return c.createStore(c.storeDir) })
	})
	if err != nil {
		return err
	}
	defer p.close()
	in := control.NewSession{Session: c.session, Team: control.TeamInput{Name: reference, Loaded: &t}, Requirement: requirement, PhaseSelection: c.course.PhaseSelection}
	if in.Labels, err = control.ParseLabels(c.labels); err != nil {
		return inputError(err)
	}
	if err := p.checkStart(ctx, in); err != nil {
		return c.explainStart(ctx, p, err)
	}
	files, err := p.files()
	if err != nil {
		return err
	}
	if err := c.storeFiles(ctx, files, t, ticket, &in); err != nil {
		return err
	}
	for _, files := range append(slices.Collect(maps.Values(in.Supplied)), in.Workspace) {
		if files == "" {
			continue
		}
		if err := p.send(ctx, t.Name, files); err != nil {
			return c.explainStart(ctx, p, err)
		}
	}
	start := func() (control.Started, error) {
		return invoke(ctx, p, httpapi.StartSession, httpapi.Body[control.NewSession]{Body: in})
	}
	if server == nil {
		doc, err := start()
		return c.begun(ctx, p, doc, err, c.watch)
	}
	doc, err := c.startServed(ctx, &in.Session, t.Name, start)
	return c.begun(ctx, p, doc, err, c.watch)
}

// teamFor is the team of a file, or a registered one of the store or server. The latter's reference
// names its version.
func (o *storeOpener) teamFor(ctx context.Context, server *client.Client, name string) (t spec.Team, reference string, err error) {
	team, version, _ := strings.Cut(name, "@")
	if server == nil || isFile(name) || spec.CheckName(team) != nil {
		t, err = o.teamNamed(ctx, name)
		return t, "", err
	}
	found, err := client.Call(ctx, server, httpapi.ReadTeam, httpapi.TeamVersion{Name: team, Version: version})
	var failed *control.Error
	if errors.As(err, &failed) && failed.Kind == control.NotFound {
		return t, "", usagef("file %s not found, and %w", name, err)
	}
	return found.Team, team + "@" + string(found.Digest), err
}

// storeFiles stores what the session starts from.
func (c *runCommand) storeFiles(ctx context.Context, s *store.Store, t spec.Team, ticket *origin, in *control.NewSession) (err error) {
	if in.Workspace, err = c.workspace.snapshot(ctx, c.console, c.environ, s, t); err != nil {
		return err
	}
	if in.Source = c.workspace.source(ctx, c.env); in.Source != nil {
		in.Commit, in.LeftOut = in.Source.Commit, in.Source.LeftOut
	}
	if ticket != nil {
		in.ReportTo = ticket.Key
		ticket.warnNoNotifier(ctx, c.console, s, c.env.Now())
		if in.Workspace, err = ticket.addAttachments(ctx, c.console, s, in.Workspace); err != nil {
			return err
		}
	}
	if c.workspace.dir == "" && ticket == nil {
		in.Workspace = "" // else the manifest of no files
	}
	return c.supplied.store(ctx, c.console, c.environ, s, t, in)
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

// check rejects contradictory flags before any connection is made.
func (c *runCommand) check(text []string, served bool) error {
	switch {
	case served && c.fromJira != "":
		return usagef("--from-jira needs Temporal and the store; leave the server out")
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

// requirementOf reads the requirement: from the arguments, a file or standard input.
func requirementOf(stdin io.Reader, file string, args []string) (string, error) {
	var text, from string
	switch {
	case file != "" && len(args) > 0:
		return "", usagef("-f %s and TEXT exclude each other; leave one out", file)
	case file == "" && len(args) == 0:
		return "", usagef("missing requirement; give it as TEXT, in a file (-f FILE), or on standard input (-)")
	case file == "-" || (file == "" && args[0] == "-"):
		data, err := io.ReadAll(io.LimitReader(stdin, control.MaxRequirement+1))
		if err != nil {
			return "", failf("standard input cannot be read: %w", err)
		}
		text, from = string(data), "standard input"
	case file != "":
		data, err := bounded.ReadFile(file, control.MaxRequirement)
		if err != nil {
			return "", usagef("the requirement cannot be read: %w", err)
		}
		text, from = string(data), file
	default:
		text, from = args[0], "the requirement"
	}
	return checkRequirement(strings.TrimPrefix(text, "\uFEFF"), from)
}

// checkRequirement rejects an empty or too large requirement.
func checkRequirement(text, from string) (string, error) {
	if err := control.CheckRequirement(text); err != nil {
		return "", usagef("%s: %w", from, err)
	}
	return text, nil
}
