package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/platform/buildinfo"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
)

// Execute runs one command line and returns its exit code: 0 done, 1 failed, 2
// for bad usage or invalid input, 3 when a person's help or
// approval is awaited, 4 when Temporal cannot be reached, and 130 when ctx ended
// an unfinished command.
func Execute(ctx context.Context, env Env) int {
	a := newApp(env)
	root := newRoot(a)
	root.SetArgs(env.Args)
	root.SetIn(env.Stdin)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(env.acting(ctx))
	a.closeTelemetry()
	a.reportError(err)
	return exitCode(err)
}

// Commands returns the tree of commands, for manual pages and completions. It runs nothing.
func Commands() *cobra.Command { return newRoot(newApp(Env{})) }

// reportError prints an error. Errors about files begin with the file's name, so that editors can
// open it.
func (a *app) reportError(err error) {
	if err == nil {
		return
	}
	switch message := a.describeError(err); {
	case message == "":
	case is[*config.Problems](err):
		a.printErr("%s", message)
	default:
		a.printErr("maestro: %s", message)
	}
}

// app is one running command line: its environment, and what its commands share.
type app struct {
	env Env
	*console
	*connector
	// plain is true if a session is followed by lines, also on a terminal.
	plain bool
	// held is standard error, kept back while a session is drawn.
	held *heldWriter
}

func newApp(env Env) *app {
	held := &heldWriter{out: env.Stderr}
	env.Stderr = held
	a := &app{env: env, connector: &connector{target: &target{environ: environ(env.Environ)}}, held: held}
	out := &console{stdout: env.Stdout, stderr: held, columns: env.Width}
	out.onTerminal = env.IsTerminal != nil && env.IsTerminal(env.Stdout)
	out.palette.On = out.onTerminal && a.environ.get("NO_COLOR") == "" && a.environ.get("TERM") != "dumb"
	return a.printingTo(out)
}

// printingTo returns an app with the same flags that prints elsewhere.
func (a *app) printingTo(out *console) *app {
	flags, to := *a.target, *a
	to.console = out
	to.connector = &connector{target: &flags, console: out, now: a.env.Now, host: a.env.Host, telemetry: a.telemetry}
	return &to
}

const (
	groupWork   = "work"
	groupPerson = "person"
	groupServe  = "serve"
	groupInform = "inform"
)

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "maestro",
		Short: "Run a team of AI personas through the phases of a piece of work, durably",
		Long: "Maestro runs a team of AI personas through the phases of a piece of work, durably.\n\n" +
			"Try it:  maestro demo",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cmdline.NoCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		// cobra itself calls it no misuse
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return cmdline.CheckFlags(cmd) },
	}
	root.AddGroup(
		&cobra.Group{ID: groupWork, Title: "Sessions:"},
		&cobra.Group{ID: groupPerson, Title: "Requests to a person:"},
		&cobra.Group{ID: groupServe, Title: "Servers and workers:"},
		&cobra.Group{ID: groupInform, Title: "More:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
		}
		root.AddCommand(commands...)
	}
	add(groupWork, newPlan(a), newRun(a), newStatus(a), newWatch(a), newList(a), newResume(a), newDeliver(a), newFork(a),
		newCancel(a), newUsage(a), newBudget(a), newLogs(a), newArtifacts(a), newApply(a), newCheckpoints(a))
	add(groupPerson, newInbox(a), newResolve(a), newApprove(a), newReject(a))
	add(groupServe, newDemo(a), newDev(a), newServe(a), newMCP(a), newWorker(a), newAgents(a), newBreaker(a), newTeam(a),
		newHook(a), newToken(a), newPeople(a), newAudit(a), newBackup(a), newRestore(a))
	add(groupInform, newInit(a), newValidate(a), newSchema(a), newDoctor(a), newVersion(a), newConnectionTopic())
	root.SetHelpCommandGroupID(groupInform)
	root.SetCompletionCommandGroupID(groupInform)
	root.CompletionOptions.DisableNoDescFlag = true
	root.SetOut(a.stdout) // where the completion scripts go
	root.InitDefaultCompletionCmd()
	cmdline.Prepare(root, buildinfo.This().Line(root.Name()))
	completion{a.connector}.addTo(root)
	refuseServer(root)
	return root
}

// group is a command that only has subcommands.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short}
	cmd.AddCommand(commands...)
	return cmd
}

// addServedFlags gives a command the flags of one that works with Temporal, the store, or a server.
func (a *app) addServedFlags(cmd *cobra.Command, more ...string) *cobra.Command {
	return a.addServerFlags(a.addSessionFlags(cmd, more...))
}

// addReadingFlags gives a command the flags of one that reads the store, or a server.
func (a *app) addReadingFlags(cmd *cobra.Command) *cobra.Command {
	return a.addServerFlags(a.addStoreFlags(cmd))
}

// addSessionFlags gives a command the flags of one that needs Temporal: its connection, the
// store, and -o with the formats table, json and more.
func (a *app) addSessionFlags(cmd *cobra.Command, more ...string) *cobra.Command {
	return a.addStateFlags(a.addTemporalFlags(cmd), more...)
}

// addStoreFlags gives a command the flags of one that reads or changes sessions in the store only: which
// namespace and store, and -o.
func (a *app) addStoreFlags(cmd *cobra.Command) *cobra.Command {
	return a.addStateFlags(a.addNamespaceFlags(cmd))
}

// addStateFlags gives a command the flags of one that works with the store only: which one, and -o.
func (a *app) addStateFlags(cmd *cobra.Command, more ...string) *cobra.Command {
	return a.addOutputFlag(a.addStateDirFlag(cmd), more...)
}
