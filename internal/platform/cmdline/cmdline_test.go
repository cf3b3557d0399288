package cmdline_test

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/platform/cmdline"
)

// program is a command line with a command of each kind.
func program() *cobra.Command {
	root := &cobra.Command{
		Use: "prog", Long: "Prog does things.\n\n" + strings.Repeat("It does many of them. ", 10), Args: cmdline.NoCommand,
		SilenceErrors: true, SilenceUsage: true,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return cmdline.CheckFlags(cmd) },
	}
	show := &cobra.Command{
		Use: "show NAME [PART]", Short: "Show a thing", Args: cmdline.Arguments(1, 2),
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	flags := show.Flags()
	flags.Int("limit", 1, "most that is shown")
	flags.Int64("tokens", 0, "how many")
	flags.Duration("since", time.Hour, "for how long")
	flags.BoolP("quiet", "q", false, strings.Repeat("say less ", 20))
	flags.Bool("loud", false, "say more")
	show.MarkFlagsMutuallyExclusive("quiet", "loud")
	cmdline.AddGroup(flags, "Connection", func(flags *pflag.FlagSet) { flags.StringP("address", "a", "", "where it is") })
	root.AddCommand(show)
	cmdline.Prepare(root, "prog v1")
	return root
}

// run returns what a line prints, and what it ends with.
func run(line string) (string, error) {
	var out bytes.Buffer
	root := program()
	root.SetArgs(strings.Fields(line))
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.Execute()
	return out.String(), err
}

func TestWhatIsMistypedIsNamed(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"shwo":                                 `unknown command "shwo" for "prog"; did you mean "show"?`,
		"dance":                                `unknown command "dance" for "prog"; see ` + "`prog --help`",
		"help shwo":                            `unknown command "shwo" for "prog"; did you mean "show"?`,
		"show":                                 "missing NAME; usage: prog show NAME [PART] [flags]",
		"show a b c":                           `unexpected argument "c"; usage: prog show NAME [PART] [flags]`,
		"show a --limmit 1":                    `unknown flag --limmit for "prog show"; did you mean --limit?`,
		"show a --colour":                      `unknown flag --colour for "prog show"; see ` + "`prog show --help`",
		"show a -x":                            `unknown flag -x for "prog show"; see ` + "`prog show --help`",
		"show a --limit":                       "--limit needs a value; see `prog show --help`",
		"show a --limit x":                     `--limit: "x" is not a whole number`,
		"show a --tokens 1e9":                  `--tokens: "1e9" is not a whole number`,
		"show a --tokens 123456789":            "",
		"show a --tokens 99999999999999999999": `--tokens: "99999999999999999999" is too large`,
		"show a --since 5":                     `--since: "5" is not a duration like 90s, 15m or 24h`,
		"show a --quiet=perhaps":               `--quiet: "perhaps" is not true or false`,
		"show a --quiet --loud":                "--loud and --quiet exclude each other; leave one out",
	} {
		_, err := run(line)
		if want == "" {
			require.NoError(t, err, line)
			continue
		}
		var usage *cmdline.UsageError
		require.ErrorAs(t, err, &usage, line)
		require.EqualError(t, err, want, line)
	}
}

func TestHelpFitsAPageAndListsGroupsOfFlagsLast(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "--help", "show --help", "help show"} {
		out, err := run(line)
		require.NoError(t, err)
		for text := range strings.Lines(out) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(text, "\n")), 80, text)
		}
	}
	out, err := run("show --help")
	require.NoError(t, err)
	usual, connection := strings.Index(out, "\nFlags:\n"), strings.Index(out, "\nConnection:\n")
	require.Positive(t, usual)
	require.Greater(t, connection, usual)
	require.Less(t, strings.Index(out, "--since"), connection)
	require.Greater(t, strings.Index(out, "-a, --address"), connection)
}
