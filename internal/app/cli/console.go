package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// console prints what a command finds: results to standard output, everything else to
// standard error.
type console struct {
	stdout, stderr io.Writer
	palette        terminal.Palette
	// output is the format of results.
	output string
	// onTerminal: standard output is a terminal.
	onTerminal bool
	// columns is how many characters a line of a stream has; zero: unknown.
	columns func(stream any) int
}

// print writes a line to standard output.
func (c *console) print(format string, args ...any) {
	_, _ = io.WriteString(c.stdout, c.safe(fmt.Sprintf(format, args...))+"\n")
}

// hang writes text to standard output behind the beginning of its first line; further lines are indented.
func (c *console) hang(begin string, indent int, text string) {
	for _, line := range terminal.Wrap(text, terminal.PageWidth-indent) {
		c.print("%s%s", begin, line)
		begin = strings.Repeat(" ", indent)
	}
}

// printErr writes a line to standard error.
func (c *console) printErr(format string, args ...any) {
	_, _ = io.WriteString(c.stderr, c.safe(fmt.Sprintf(format, args...))+"\n")
}

// safe removes control characters from a text for people. Texts of agents are cleaned
// before; this is a second guard, for errors and omissions.
func (c *console) safe(text string) string {
	if c.palette.On {
		return safetext.Coloured(text)
	}
	return safetext.Block(text)
}

// printDamage says what of a session cannot be read.
func (c *console) printDamage(d control.Damage) {
	if d.Damage != "" {
		c.printErr("damaged: %s", strings.ReplaceAll(d.Damage, "\n", "\n  "))
	}
}

// result prints a command's document as JSON, or with the function for people.
func (c *console) result(document any, table func()) error {
	if c.output == outputJSON {
		return c.printJSON(document)
	}
	table()
	return nil
}

// printJSON writes a document to standard output.
func (c *console) printJSON(document any) error {
	return c.writeJSON(document, "  ")
}

// writeJSON writes a document to standard output, indented or on one line. What a
// terminal would not show in it is escaped.
func (c *console) writeJSON(document any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", indent)
	e.SetEscapeHTML(false)
	if err := e.Encode(document); err != nil {
		return err
	}
	_, err := c.stdout.Write(safetext.JSON(b.Bytes()))
	return err
}

// width is how many characters a line of a stream has; zero: unknown.
func (c *console) width(of io.Writer) int {
	if c.columns == nil {
		return 0
	}
	return c.columns(of)
}

// table begins a table with these heads.
func (c *console) table(heads ...string) *terminal.Table {
	return terminal.NewTable(c.palette, heads...)
}

// writeFitted prints a table that fits the terminal: without some columns, in this order, where
// it is too wide.
func (c *console) writeFitted(t *terminal.Table, drop ...string) {
	t.Fit(c.width(c.stdout), drop...)
	t.Write(c.stdout)
}

// addOutputFlag gives a command -o table|json, and refuses anything else before
// the command runs. Some have more formats.
func (c *console) addOutputFlag(cmd *cobra.Command, more ...string) *cobra.Command {
	formats := append([]string{outputTable, outputJSON}, more...)
	c.output = outputTable
	cmd.Flags().VarP(&outputFlag{&c.output, formats}, "output", "o", terminal.Enumeration(formats, "or"))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, noFiles))
	return cmd
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

// writePatch prints a patch unchanged; on a terminal with colours and without what
// would change the terminal's state.
func (c *console) writePatch(patch string) error {
	if c.onTerminal {
		patch = c.colouredPatch(patch)
	}
	_, err := io.WriteString(c.stdout, patch)
	return err
}

// colouredPatch is a patch made safe, in colours where there are any.
func (c *console) colouredPatch(patch string) string {
	var b strings.Builder
	for line := range strings.Lines(patch) {
		b.WriteString(c.palette.Paint(diffColour(line), safetext.Source(strings.TrimSuffix(line, "\n"))) + "\n")
	}
	return b.String()
}
