package cmdline

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// A UsageError says what is wrong with what was typed.
type UsageError struct{ message string }

func (e *UsageError) Error() string { return e.message }

func usageErrorf(format string, args ...any) error {
	return &UsageError{fmt.Sprintf(format, args...)}
}

// maxQuoted bounds what is quoted of an argument, in characters.
const maxQuoted = 80

// NoCommand refuses arguments of a command that only has subcommands, with a
// [*UsageError].
func NoCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := seeHelp(cmd)
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		for i := range near {
			near[i] = strconv.Quote(near[i])
		}
		hint = "did you mean " + terminal.Enumeration(near, "or") + "?"
	}
	return usageErrorf("unknown command %q for %q; %s", textfmt.Shorten(args[0], maxQuoted), cmd.CommandPath(), hint)
}

// checkArguments gives the commands without a check of their own one by their usage line, and refuses those that only
// have subcommands.
func checkArguments(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		checkArguments(sub)
	}
	switch {
	case cmd.HasSubCommands() && !cmd.Runnable():
		cmd.Args, cmd.RunE = NoCommand, missingCommand
	case cmd.Args == nil:
		cmd.Args = Arguments(argumentsOf(cmd.Use))
	}
}

// missingCommand refuses a command that only has subcommands.
func missingCommand(cmd *cobra.Command, _ []string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return usageErrorf("missing subcommand of `%s`; use one of: %s", cmd.CommandPath(), strings.Join(names, ", "))
}

// operand matches an optional argument, a flag with its value, or an argument in a usage line.
var operand = regexp.MustCompile(`\[[^]]+\]|--\S+ \S+|\S+`)

// argumentsOf returns how many arguments a usage line, like `show NAME [PHASE] --note TEXT`, requires and permits. A
// negative number is no limit.
func argumentsOf(use string) (least, most int) {
	for _, text := range operand.FindAllString(use, -1)[1:] {
		switch {
		case strings.HasPrefix(text, "--"):
		case strings.HasSuffix(text, "...]"):
			return least, -1
		case strings.HasPrefix(text, "["):
			most++
		default:
			least, most = least+1, most+1
		}
	}
	return least, most
}

// Arguments checks how many arguments a command gets, and names what is missing as its
// usage line does. A negative most is no limit. The error is a [*UsageError].
func Arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usageErrorf("missing %s; usage: %s", missing(cmd.Use, len(args), least), cmd.UseLine())
		case most >= 0 && len(args) > most:
			return usageErrorf("unexpected argument %q; usage: %s", textfmt.Shorten(args[most], maxQuoted), cmd.UseLine())
		}
		return nil
	}
}

// missing names the arguments of a usage line from the given one up to least.
func missing(use string, given, least int) string {
	names := strings.Fields(use)[1:]
	if most := min(len(names), least); given < most {
		return terminal.Enumeration(names[given:most], "and")
	}
	return "an argument"
}

// FlagError says what is wrong with a flag, as a [*UsageError].
func FlagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var empty *pflag.ValueRequiredError
	var value *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		return unknownFlag(cmd, unknown)
	case errors.As(err, &empty):
		return usageErrorf("--%s needs a value; %s", empty.GetFlag().Name, seeHelp(cmd))
	case errors.As(err, &value):
		return usageErrorf("--%s: %s", value.GetFlag().Name, invalid(value))
	}
	return usageErrorf("%s; %s", err, seeHelp(cmd))
}

func seeHelp(cmd *cobra.Command) string { return fmt.Sprintf("see `%s --help`", cmd.CommandPath()) }

func unknownFlag(cmd *cobra.Command, e *pflag.NotExistError) error {
	if e.GetSpecifiedShortnames() != "" {
		return usageErrorf("unknown flag -%s for %q; %s", e.GetSpecifiedName(), cmd.CommandPath(), seeHelp(cmd))
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	hint := seeHelp(cmd)
	if near := textfmt.Nearest(e.GetSpecifiedName(), known); near != "" {
		hint = "did you mean --" + near + "?"
	}
	return usageErrorf("unknown flag --%s for %q; %s", textfmt.Shorten(e.GetSpecifiedName(), maxQuoted), cmd.CommandPath(), hint)
}

// kinds say what the values of flags have to be, by the type of the flag.
var kinds = map[string]string{
	"int": "a whole number", "int64": "a whole number", "float64": "a number", "uint16": "a port from 0 to 65535",
	"duration": "a duration like 90s, 15m or 24h",
	"bool":     "true or false",
}

// invalid says what is wrong with a flag's value.
func invalid(e *pflag.InvalidValueError) string {
	value, kind := strconv.Quote(textfmt.Shorten(e.GetValue(), maxQuoted)), kinds[e.GetFlag().Value.Type()]
	switch {
	case errors.Is(e, strconv.ErrRange) && kind != kinds["uint16"]:
		return value + " is too large"
	case kind != "":
		return value + " is not " + kind
	}
	return e.Unwrap().Error()
}

// exclusive is what cobra says of flags that exclude each other.
var exclusive = regexp.MustCompile(`none of the others can be; \[(.+)\] were all set$`)

// CheckFlags refuses flags that exclude each other, with a [*UsageError].
func CheckFlags(cmd *cobra.Command) error {
	err := cmd.ValidateFlagGroups()
	if err == nil {
		return nil
	}
	if m := exclusive.FindStringSubmatch(err.Error()); m != nil {
		return usageErrorf("--%s exclude each other; leave one out", strings.Join(strings.Fields(m[1]), " and --"))
	}
	return usageErrorf("%s; %s", err, seeHelp(cmd))
}
