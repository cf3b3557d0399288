package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/app/project"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/apply"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/launch"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
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
	// foreground has the server and the worker that are started live as long as the command.
	foreground bool
	labels     []string
	course     courseFlags
	supplied   suppliedFlags
}

func newRun(a *app) *cobra.Command {
	c := runCommand{app: a}
	cmd := &cobra.Command{
		Use:   "run [TEAM] [TEXT | ISSUE | -f FILE | -]",
		Short: "Start a session of a team on a requirement",
		Long: "Start a session.\n\nIn a Git repository a requirement is enough: the team of the repository's .maestro/team.yaml " +
			"works on it, or one that is made for it " +
			"from the agents of this machine and the tools of the repository: it plans, implements and reviews the change. Where no " +
			"Maestro runs, one is started in the background, " +
			"or, without a terminal or with --foreground, for as long as the command.\n\nOtherwise the team of a team file, or a " +
			"registered team (NAME, or NAME@DIGEST for a version), works on a requirement, which is given as text, in a file (-f), or " +
			"on standard input (-).\n\n" +
			"The address of an issue on GitHub or GitLab stands for its title, text and newest comments. A token in GITHUB_TOKEN, " +
			"GH_TOKEN or GITLAB_TOKEN is sent to github.com and gitlab.com only, " +
			"and to the site that GH_HOST or GITLAB_HOST names. In a repository the key of a ticket alone, like MD-123, means " +
			"--from-jira.\n\n" +
			"The session's id is printed once a worker has admitted the session; from then on it runs independently of this command.",
		Example: "  maestro run \"Add a --shout flag\"\n  maestro run https://github.com/owner/repo/issues/12\n  maestro run " +
			"team.yaml \"A URL shortener in Go\"\n  maestro run team.yaml -f requirement.md --workspace . --watch\n" +
			"  maestro run team.yaml --from-jira MD-123\n  maestro run team.yaml -f requirement.md --from implementation --input " +
			"design=docs/design.md",
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.requirementAlone(args) {
				return c.runHere(cmd.Context(), args)
			}
			return c.run(cmd.Context(), args)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&c.file, "file", "f", "", "file with the requirement")
	flags.StringVar(&c.session, "session", "", "id of the session (default: team name, date and a random part)")
	c.workspace.add(cmd, "directory whose files the session starts from (default: none); it is only read")
	c.course.add(cmd)
	c.supplied.add(cmd)
	flags.StringArrayVar(&c.labels, "label", nil, "KEY=VALUE by which the session is found; may be given several times")
	flags.StringVar(&c.fromJira, "from-jira", "", "KEY of a ticket whose text and attachments are the requirement; progress is "+
		"posted to the ticket")
	flags.StringVar(&c.agents, "agents", "", "worker file that names the Jira of --from-jira (default: MAESTRO_AGENTS, else "+
		".maestro/agents.yaml of the repository)")
	flags.BoolVar(&c.foreground, "foreground", false, "run a server and a worker that are started for a repository only as long "+
		"as the command")
	flags.BoolVar(&c.watch, "watch", false, "follow the session until it ends, and exit with its outcome")
	a.addPlainFlag(flags)
	return a.addServedFlags(cmd)
}

// ticketKey is the key of a ticket where it stands for a requirement.
var ticketKey = regexp.MustCompile(`^[A-Z][A-Z0-9_]+-[1-9][0-9]*$`)

// requirementAlone reports whether arguments name no team: the requirement alone, or nothing beside -f or --from-jira.
func (c *runCommand) requirementAlone(args []string) bool {
	switch {
	case len(args) == 0:
		return c.file != "" || c.fromJira != ""
	case len(args) > 1 || c.file != "" || c.fromJira != "":
		return false
	case isFile(args[0]):
		return filepath.Ext(args[0]) != ".yaml" && filepath.Ext(args[0]) != ".yml"
	}
	return args[0] == "-" || ticketKey.MatchString(args[0]) || spec.CheckName(args[0]) != nil && filepath.Ext(args[0]) != ".yaml"
}

// runHere starts a session of the repository's own team, or of one that is made for it.
func (c *runCommand) runHere(ctx context.Context, requirement []string) error {
	server, err := c.client()
	if err != nil {
		return err
	}
	if server != nil {
		return usagef("missing team; give a team file or the name of a registered team: `maestro team list` has those of the server")
	}
	root, err := project.Root(c.env.Dir)
	if err != nil {
		return usagef("%w; give a team: `maestro run TEAM TEXT`, or run `git init` first", err)
	}
	c.workspace.dir = cmp.Or(c.workspace.dir, root)
	requirement = c.readArgument(root, requirement)
	if err := c.check(requirement, false); err != nil {
		return err
	}
	ticket, text, err := c.requirement(ctx, requirement)
	if err != nil {
		return err
	}
	s, err := c.createStore(c.workerDir)
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return failf("%w", err)
	}
	team, agents, err := c.teamHere(root, s.Dir())
	if err != nil {
		return err
	}
	t, err := c.teamNamed(ctx, team)
	if err != nil {
		return err
	}
	stop, err := c.serveHere(ctx, s.Dir(), agents, t)
	if err != nil {
		return err
	}
	defer stop()
	c.watch = true
	return c.start(ctx, t, "", ticket, text)
}

// readArgument takes an argument that names a file, or a ticket of Jira, as the flag for it. It returns the others.
func (c *runCommand) readArgument(root string, args []string) []string {
	switch {
	case len(args) == 0:
	case isFile(args[0]):
		c.file, args = args[0], nil
	case ticketKey.MatchString(args[0]):
		c.fromJira, args = args[0], nil
	}
	if _, own := ownFiles(root); c.fromJira != "" && c.environ.get("MAESTRO_AGENTS") == "" && isFile(own) {
		c.agents = cmp.Or(c.agents, own)
	}
	return args
}

// teamHere finds the team file and the worker file of a repository. Without some of its own, they are written below the state
// directory.
func (c *runCommand) teamHere(root, stateDir string) (team, agents string, err error) {
	team, agents = ownFiles(root)
	if isFile(team) || isFile(agents) {
		return team, agents, nil
	}
	p, err := c.findProject(root)
	if err != nil {
		return "", "", err
	}
	// One worker serves all repositories of this machine, so there is one worker file.
	sum := sha256.Sum256([]byte(root))
	at := filepath.Join(stateDir, "projects")
	team, agents = filepath.Join(at, p.Name+"-"+hex.EncodeToString(sum[:4])+".yaml"), filepath.Join(at, "agents.yaml")
	if err := writeProject(p, team, agents, os.O_TRUNC); err != nil {
		return "", "", err
	}
	c.printErr("%s\n", p.Describe())
	return team, agents, nil
}

// ownFiles are the team file and the worker file of a repository.
func ownFiles(root string) (team, agents string) {
	return filepath.Join(root, ownDir, "team.yaml"), filepath.Join(root, ownDir, "agents.yaml")
}

func (c *runCommand) run(ctx context.Context, args []string) error {
	server, err := c.client()
	if err != nil {
		return err
	}
	if len(args) == 0 {
		_, err := requirementOf(c.env.Stdin, "", nil)
		return err
	}
	t, reference, err := c.teamFor(ctx, server, args[0])
	if err != nil {
		return err
	}
	if err := c.check(args[1:], server != nil); err != nil {
		return err
	}
	ticket, requirement, err := c.requirement(ctx, args[1:])
	if err != nil {
		return err
	}
	return c.start(ctx, t, reference, ticket, requirement)
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

// start starts a session of a team on a requirement. reference is empty for a team of a file, and ticket is nil if the
// requirement comes from none.
func (c *runCommand) start(ctx context.Context, t spec.Team, reference string, ticket *origin, requirement string) error {
	if err := inputError(c.course.Check(t)); err != nil {
		return err
	}
	p, err := c.served(c.temporalBase(func() (*store.Store, error) { return c.createStore(c.storeDir) }))(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	in := control.NewSession{
		Session: c.session, Team: control.TeamInput{Name: reference, Loaded: &t}, Requirement: requirement,
		PhaseSelection: c.course.PhaseSelection,
	}
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
	return c.startAndFollow(ctx, p, &in.Session, t.Name, c.watch, func() (control.Started, error) {
		return invoke(ctx, p, httpapi.StartSession, httpapi.Body[control.NewSession]{Body: in})
	})
}

// storeFiles stores what the session starts from.
func (c *runCommand) storeFiles(ctx context.Context, s *store.Store, t spec.Team, ticket *origin,
	in *control.NewSession,
) (err error) {
	if in.Workspace, in.Source, err = c.workspace.snapshot(ctx, c.app, s, t); err != nil {
		return err
	}
	if in.Source != nil {
		in.Commit, in.LeftOut = in.Source.Commit, in.Source.LeftOut
	}
	if ticket != nil {
		in.ReportTo = ticket.Key
		ticket.warnNoNotifier(ctx, c.console, s, c.now())
		if in.Workspace, err = ticket.addAttachments(ctx, c.console, s, in.Workspace); err != nil {
			return err
		}
	}
	if c.workspace.dir == "" && ticket == nil {
		in.Workspace = "" // else the manifest of no files
	}
	return c.supplied.store(ctx, c.console, c.environ, s, t, in)
}

// snapshot stores the files that the session starts from, and returns their origin; nil if there is no workspace.
func (f workspaceFlags) snapshot(ctx context.Context, a *app, s *store.Store, t spec.Team) (spec.Digest, *session.Source, error) {
	if f.dir == "" {
		files, err := s.Content.PutManifest(ctx, cas.Manifest{})
		return files, nil, err
	}
	snap, err := s.Content.Snapshot(ctx, f.dir,
		apply.WithTracked(ctx, f.dir, a.environ, cas.SnapshotOptions{Ignore: t.Ignore, Include: f.include}))
	if err != nil {
		return "", nil, err
	}
	dir, err := filepath.Abs(f.dir)
	if err != nil {
		return "", nil, usagef("--workspace: %w", err)
	}
	source := apply.Source(ctx, a.env.Host, dir, a.environ)
	from := &source
	from.Include, from.LeftOut = f.include, snap.LeftOut()
	a.printErr("the session starts from %s (%s) of %s", textfmt.Count(snap.Files, "file"), textfmt.Size(snap.Bytes), from.Dir)
	for _, note := range from.LeftOut {
		a.printErr("not taken, %s", note)
	}
	if len(snap.Private)+len(snap.Ignored) > 0 {
		a.printErr("--include PATTERN takes files that are ignored or look like secrets")
	}
	return snap.Manifest, from, nil
}

// startAndFollow starts or resumes a session, prints it, and follows it if that is requested. If no id is given for a session at
// a server, one is chosen here, so that a repeated request does not start a second session.
func (a *app) startAndFollow(ctx context.Context, p *backend, id *string, team string, watch bool,
	start func() (control.Started, error),
) error {
	chosen := p.base == nil && *id == ""
	if chosen {
		*id = launch.NewID(team, a.now())
	}
	doc, err := start()
	switch {
	case p.base != nil, err == nil:
	case chosen && conflictOf(err, "session"): // an earlier try started it
		doc, err = control.Started{Foreseen: control.Foreseen{Session: *id}}, nil
	case ctx.Err() != nil, lostConnection(err):
		err = &codeError{exitCode(err), fmt.Errorf("%s; the server may have started session %s: %s", a.describeError(err), *id,
			a.commandLine("status "+*id))}
	}
	return a.begun(ctx, p, doc, err, watch)
}

// begun prints a session that an operation has started, or its error, and follows the session if
// that is requested.
func (a *app) begun(ctx context.Context, p *backend, doc control.Started, err error, watch bool) error {
	for _, fault := range doc.Faults {
		a.printErr("damaged: %s", strings.ReplaceAll(fault, "\n", "\n  "))
	}
	err = a.explainStart(ctx, p, err)
	if doc.Session == "" || err != nil && exitCode(err) == exitUsage {
		return err
	}
	follow := a.commandLine("watch " + doc.Session)
	switch {
	case ctx.Err() != nil:
		a.printErr("the session is started and runs in the background: %s", follow)
		err = cmp.Or(err, ctx.Err())
	case err == nil && !doc.Admitted && len(doc.Continued) == 0:
		why := ""
		if v, _ := p.lookout(doc.Session, a.now).look(ctx); v.Reason != "" {
			why = ": " + v.Reason
		}
		err = failf("the session is started, but no worker admitted it within %s%s; it runs as soon as one does: %s",
			launch.AdmissionTimeout, why, follow)
	}
	a.printPlan(doc.Plan)
	a.printUnchanged(doc)
	// A session that is started and not admitted yet has an id, too.
	if err := errors.Join(err, a.result(doc, func() { a.print("%s", doc.Session) })); err != nil || !watch ||
		doc.Unchanged.Closed() {
		return err
	}
	w := p.lookout(doc.Session, a.now)
	w.exists = true
	return a.follow(ctx, w)
}
