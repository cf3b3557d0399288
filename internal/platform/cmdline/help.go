package cmdline

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// headingAnnotation holds the heading below which help lists a flag.
const headingAnnotation = "maestro_heading"

// AddGroup adds the flags that add defines. Help lists them below a heading of their
// own, after the command's other flags.
func AddGroup(flags *pflag.FlagSet, heading string, add func(*pflag.FlagSet)) {
	group := pflag.NewFlagSet(heading, pflag.ContinueOnError)
	add(group)
	group.VisitAll(func(f *pflag.Flag) {
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[headingAnnotation] = []string{heading}
	})
	flags.AddFlagSet(group)
}

// Prepare gives a program, whose commands are complete, the form of its help and errors,
// and a flag --version that prints version.
func Prepare(root *cobra.Command, version string) {
	root.Version = version
	root.SetFlagErrorFunc(FlagError)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := io.WriteString(cmd.OutOrStderr(), usage(cmd))
		return err
	})
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		text := cmd.Long
		if text == "" {
			text = cmd.Short
		}
		out := cmd.OutOrStdout()
		_, _ = fmt.Fprintln(out, prose(text)) // whom could it be said to?
		if cmd.Runnable() || cmd.HasSubCommands() {
			_, _ = fmt.Fprintf(out, "\n%s", usage(cmd))
		}
	})
	checkArguments(root)
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"}) // the default one
	help.Args = func(_ *cobra.Command, args []string) error {
		found, rest, _ := root.Find(args)
		return NoCommand(found, rest)
	}
}

// prose wraps paragraphs. Lines that begin with a space or a tab stay as they are.
func prose(text string) string {
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") {
			lines = append(lines, line)
			continue
		}
		lines = append(lines, terminal.Wrap(line, terminal.PageWidth)...)
	}
	return strings.Join(lines, "\n")
}

// usage is how a command is written, with its subcommands and flags.
func usage(cmd *cobra.Command) string {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.Runnable() && (!cmd.HasAvailableSubCommands() || worksAlone(cmd)) {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.TrimRight(cmd.Example, "\n"))
	}
	writeCommands(&b, cmd)
	writeFlags(&b, cmd)
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n`%s COMMAND --help` says more about a command.\n", cmd.CommandPath())
	}
	return b.String()
}

// worksAlone reports whether a command that has subcommands has flags of its own, too.
func worksAlone(cmd *cobra.Command) (does bool) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { does = does || f.Name != "help" && f.Name != "version" })
	return does
}

// writeCommands lists subcommands, by group.
func writeCommands(b *strings.Builder, cmd *cobra.Command) {
	list := func(title, group string) {
		for _, sub := range cmd.Commands() {
			if sub.GroupID != group || !sub.IsAvailableCommand() && sub.Name() != "help" && !sub.IsAdditionalHelpTopicCommand() {
				continue
			}
			if title != "" {
				fmt.Fprintf(b, "\n%s\n", title)
				title = ""
			}
			name := fmt.Sprintf("  %-*s ", sub.NamePadding(), sub.Name())
			for _, line := range terminal.Wrap(sub.Short, terminal.PageWidth-len(name)) {
				fmt.Fprintf(b, "%s%s\n", name, line)
				name = strings.Repeat(" ", len(name))
			}
		}
	}
	for _, g := range cmd.Groups() {
		list(g.Title, g.ID)
	}
	list("Commands:", "")
}

// writeFlags lists the command's flags, those with a heading of their own last.
func writeFlags(b *strings.Builder, cmd *cobra.Command) {
	const usual = "Flags"
	headings, groups := []string{usual}, map[string]*pflag.FlagSet{usual: pflag.NewFlagSet(usual, pflag.ContinueOnError)}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		heading := usual
		if own := f.Annotations[headingAnnotation]; len(own) > 0 {
			heading = own[0]
		}
		if groups[heading] == nil {
			headings, groups[heading] = append(headings, heading), pflag.NewFlagSet(heading, pflag.ContinueOnError)
		}
		groups[heading].AddFlag(f)
	})
	for _, heading := range headings {
		if groups[heading].HasAvailableFlags() {
			fmt.Fprintf(b, "\n%s:\n%s", heading, groups[heading].FlagUsagesWrapped(terminal.PageWidth))
		}
	}
}
