package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/buildinfo"
	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/config"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/telemetry"
	"github.com/maestro-hive/maestro/internal/temporalutil"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// Execute runs one command line and returns its exit code: 0 done, 1 failed, 2
// for bad usage or invalid input, 3 when a person's help or
// approval is awaited, 4 when Temporal cannot be reached, and 130 when ctx ended
// an unfinished command.
func Execute(ctx context.Context, env Env) int {
	stderr := &heldWriter{out: env.Stderr}
	env.Stderr = stderr
	a := &app{env: env, environ: environ(env.Environ), stderr: stderr}
	a.palette = terminal.Palette{On: env.IsTerminal(env.Stdout) && a.environ.get("NO_COLOR") == "" && a.environ.get("TERM") != "dumb"}
	root := newRoot(a)
	root.SetArgs(env.Args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	err := root.ExecuteContext(ctx)
	a.closeTelemetry(a.telemetry)
	a.reportError(err)
	return exitCode(err)
}

// reportError prints an error. Faults of files begin with the file's name, so
// that editors can jump to them.
func (a *app) reportError(err error) {
	if err == nil {
		return
	}
	message := a.describeError(err)
	var faults *config.Problems
	if message != "" && !errors.As(err, &faults) {
		message = "maestro: " + message
	}
	if message != "" {
		a.printErr("%s", message)
	}
}

// app is one running command line: its environment and the flags that many
// commands share.
type app struct {
	env     Env
	environ environ
	palette terminal.Palette

	temporal temporalutil.Options
	stateDir string
	output   string
	// plain: a session is followed by lines, also on a terminal.
	plain bool

	// stderr is standard error, kept back while a session is drawn.
	stderr *heldWriter

	// telemetry traces what the command starts; nil until it is connected.
	telemetry *telemetry.Telemetry

	// connected is where Temporal was looked for, for messages.
	connected struct{ address, namespace string }
}

// printErr writes a line to standard error.
func (a *app) printErr(format string, args ...any) {
	_, _ = io.WriteString(a.env.Stderr, a.safe(fmt.Sprintf(format, args...))+"\n")
}

// print writes a line to standard output.
func (a *app) print(format string, args ...any) {
	_, _ = io.WriteString(a.env.Stdout, a.safe(fmt.Sprintf(format, args...))+"\n")
}

// safe escapes control characters in a text for people. Texts of agents are escaped
// before; this is a second guard, for errors and omissions.
func (a *app) safe(text string) string {
	if a.palette.On {
		return safetext.Coloured(text)
	}
	return safetext.Block(text)
}

// printJSON writes a document to standard output.
func (a *app) printJSON(document any) error {
	return a.writeJSON(document, "  ")
}

// result prints a command's document as JSON, or with the function for people.
func (a *app) result(document any, table func()) error {
	if a.output == outputJSON {
		return a.printJSON(document)
	}
	table()
	return nil
}

// writeJSON writes a document to standard output, indented or on one line. What a
// terminal would not show in it is escaped.
func (a *app) writeJSON(document any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", indent)
	e.SetEscapeHTML(false)
	if err := e.Encode(document); err != nil {
		return err
	}
	_, err := a.env.Stdout.Write(safetext.JSON(b.Bytes()))
	return err
}

// width is how many characters a line of a stream has; zero: unknown.
func (a *app) width(of io.Writer) int {
	if a.env.Width == nil {
		return 0
	}
	return a.env.Width(of)
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
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              cmdline.NoCommand,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return cmdline.CheckFlags(cmd) }, // cobra itself calls it no misuse
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
	add(groupWork, newPlan(a), newRun(a), newStatus(a), newWatch(a), newList(a), newResume(a), newFork(a), newCancel(a), newUsage(a), newBudget(a), newLogs(a), newArtifacts(a), newApply(a), newCheckpoints(a))
	add(groupPerson, newInbox(a), newResolve(a), newApprove(a), newReject(a))
	add(groupServe, newDemo(a), newDev(a), newWorker(a), newAgents(a), newBreaker(a))
	add(groupInform, newInit(a), newValidate(a), newSchema(a), newDoctor(a), newCompletion(a), newVersion(a), newConnectionTopic())
	cmdline.Prepare(root, buildinfo.This().Line(root.Name()))
	root.SetHelpCommandGroupID(groupInform)
	a.addCompletion(root)
	return root
}

// group is a command that only has subcommands.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short,
		Args: cmdline.NoCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var names []string
			for _, c := range cmd.Commands() {
				names = append(names, c.Name())
			}
			return usagef("missing subcommand of `%s`; use one of: %s", cmd.CommandPath(), strings.Join(names, ", "))
		},
	}
	cmd.AddCommand(commands...)
	return cmd
}

// addSessionFlags gives a command the flags of one that needs Temporal: its connection, the
// store, and -o with the formats table, json and more.
func (a *app) addSessionFlags(cmd *cobra.Command, more ...string) {
	a.addTemporalFlags(cmd)
	a.addStateDirFlag(cmd)
	a.addOutputFlag(cmd, more...)
}

// addTemporalFlags gives a command the flags that say where Temporal is.
func (a *app) addTemporalFlags(cmd *cobra.Command) {
	cmdline.AddGroup(cmd.Flags(), temporalutil.FlagHeading, a.temporal.AddFlags)
}

func (a *app) addStateDirFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.stateDir, "state-dir", "", "directory of the store (default: $MAESTRO_STATE_DIR, else a directory of the user)")
}

// addOutputFlag gives a command -o table|json, and refuses anything else before
// the command runs. Some have more formats.
func (a *app) addOutputFlag(cmd *cobra.Command, more ...string) {
	addFormats(cmd, &a.output, append([]string{outputTable, outputJSON}, more...)...)
}

// addFormats gives a command the flag -o with formats of its own, the usual one
// first.
func addFormats(cmd *cobra.Command, chosen *string, formats ...string) {
	*chosen = formats[0]
	cmd.Flags().VarP(&outputFlag{chosen, formats}, "output", "o", terminal.Enumeration(formats, "or"))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

const (
	outputTable = "table"
	outputJSON  = "json"
	// outputCSV is the format of tables for spreadsheets.
	outputCSV = "csv"
)

// outputFlag is how results are written.
type outputFlag struct {
	chosen  *string
	formats []string
}

func (o *outputFlag) Type() string { return strings.Join(o.formats, "|") }

func (o *outputFlag) String() string {
	if o.chosen == nil {
		return ""
	}
	return *o.chosen
}

func (o *outputFlag) Set(s string) error {
	if !slices.Contains(o.formats, s) {
		return fmt.Errorf("%q is not a format; use %s", textfmt.Shorten(s, 40), terminal.Enumeration(o.formats, "or"))
	}
	*o.chosen = s
	return nil
}
