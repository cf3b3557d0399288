package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/faces/client"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/launch"
	"github.com/maestro-hive/maestro/internal/outside/issues"
	"github.com/maestro-hive/maestro/internal/platform/bounded"
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
	ticket, requirement, err := c.work(ctx, args[1:])
	if err != nil {
		return err
	}
	return c.start(ctx, t, reference, ticket, requirement)
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
	return c.begin(ctx, p, &in.Session, t.Name, c.watch, func() (control.Started, error) {
		return invoke(ctx, p, httpapi.StartSession, httpapi.Body[control.NewSession]{Body: in})
	})
}

// teamFor is the team of a file, or a registered one of the store or server. The latter's reference
// names its version.
func (c *connector) teamFor(ctx context.Context, server *client.Client, name string) (t spec.Team, reference string, err error) {
	team, version, _ := strings.Cut(name, "@")
	if server == nil || isFile(name) || spec.CheckName(team) != nil {
		t, err = c.teamNamed(ctx, name)
		return t, "", err
	}
	found, err := client.Call(ctx, server, httpapi.ReadTeam, httpapi.TeamVersion{Name: team, Version: version})
	if failed, ok := errors.AsType[*control.Error](err); ok && failed.Kind == control.NotFound {
		return t, "", usagef("file %s not found, and %w", name, err)
	}
	return found.Team.Resolved(), team + "@" + string(found.Digest), err
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

// work is the requirement, and the ticket that it comes from; nil: none.
func (c *runCommand) work(ctx context.Context, args []string) (*origin, string, error) {
	if c.fromJira == "" {
		if address, ok := issues.Parse(strings.Join(args, " ")); ok && c.file == "" {
			requirement, err := c.fetchIssue(ctx, address)
			return nil, requirement, err
		}
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

// checkRequirement rejects an empty or too large requirement, and a file of another system.
func checkRequirement(text, from string) (string, error) {
	if foreign := config.ForeignDocument(text); foreign != "" {
		return "", usagef("%s %s", from, foreign)
	}
	if err := control.CheckRequirement(text); err != nil {
		return "", usagef("%s: %w", from, err)
	}
	return text, nil
}

// begun prints a session that an operation has started, or its error, and follows the session if
// that is requested.
func (a *app) begun(ctx context.Context, p *plane, doc control.Started, err error, watch bool) error {
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

// begin starts or resumes a session, prints it, and follows it if that is requested. If no id is given for a session at
// a server, one is chosen here, so that a repeated request does not start a second session.
func (a *app) begin(ctx context.Context, p *plane, id *string, team string, watch bool,
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

// conflictOf reports whether an operation was refused because of the state of what a field names.
func conflictOf(err error, field string) bool {
	failed, ok := errors.AsType[*control.Error](err)
	return ok && failed.Kind == control.Conflict && failed.Field == field
}

// printUnchanged prints the state of a session that was not started again.
func (a *app) printUnchanged(doc control.Started) {
	for _, phase := range doc.Continued {
		if doc.Admitted {
			a.printErr("session %s continues after phase %s", doc.Session, phase)
		} else {
			a.printErr("no worker answered within %s; session %s continues after phase %s as soon as one does", control.AnswerTimeout,
				doc.Session, phase)
		}
	}
	switch {
	case doc.Unchanged == session.Completed:
		a.printErr("session %s is completed; nothing is left to run (--force PHASE runs a phase again)", doc.Session)
	case doc.Unchanged != "":
		a.printErr("session %s is already running; nothing was changed", doc.Session)
	}
}

// explainStart adds a remedy to the error of a start.
func (a *app) explainStart(ctx context.Context, p *plane, err error) error {
	if none, ok := errors.AsType[*launch.NoCheckpointError](err); ok {
		return failf("%w; a session without one cannot be resumed; start a new session with `maestro run`", none)
	}
	if elsewhere, ok := errors.AsType[*control.OtherStoreError](err); ok {
		return usagef("%w; give its --state-dir", elsewhere)
	}
	failed := control.ProblemOf(err)
	switch {
	case failed.Reason == control.AtWork:
		return usagef("%w: %s", err, a.commandLine("cancel "+failed.Session))
	case failed.Reason == control.AwaitsAnswer:
		open, _ := p.open(ctx, failed.Session)
		return a.openRequests(failed.Session, open.Requests)
	case conflictOf(err, "session"):
		return usagef("%w; choose another --session, or show it with `%s`", err, a.commandLine("status "+failed.Session))
	case conflictOf(err, "run"):
		return usagef("%w", err)
	}
	return a.explain(ctx, p, inputError(err))
}

// openRequests is the error of resuming a session that waits for answers, with the commands that
// answer.
func (a *app) openRequests(sessionID string, open []session.Request) error {
	var b strings.Builder
	for _, h := range open {
		fmt.Fprintf(&b, "\n%s %s: %s", h.Subject(), h.Need(), safetext.Clip(messageOf(h), 200))
		if answer := a.firstCommand(sessionID, h, open); answer != "" {
			fmt.Fprintf(&b, "\n  answer with: %s", answer)
		}
	}
	return usagef("session %s is running and waits for an answer, which `resume` cannot give:%s", sessionID, &b)
}

// printPlan prints what is restored and what runs, and why.
func (a *app) printPlan(plan []session.PlanEntry) {
	words := map[session.PlanAction]string{
		session.Restore: "restores", session.RunIt: "runs", session.SupplyIt: "takes", session.Leave: "leaves", session.Drop: "drops",
	}
	for _, p := range plan {
		a.printErr("%-9s %s: %s", words[p.Action], p.AssignmentID, safetext.Line(p.Reason))
	}
}
