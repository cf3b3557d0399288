package cli

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/models/transcript"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// logsDocument is the document of `logs -o json`.
type logsDocument struct {
	Session string       `json:"session"`
	Logs    []attemptLog `json:"logs"`
}

// attemptLog is an attempt with its texts.
type attemptLog struct {
	control.Attempt
	control.AttemptLog
}

// logsCommand is `logs`.
type logsCommand struct {
	*app
	backend *backend
	session string
	// selection is PHASE, PHASE/PERSONA or empty.
	selection string
	follow    bool
	// tail is how many attempts are printed at most, the newest; negative: all.
	tail int
	// since leaves out attempts that ended longer ago; zero: none.
	since time.Duration
	// full: every item of a transcript is printed whole.
	full bool
}

func newLogs(a *app) *cobra.Command {
	c := logsCommand{app: a, tail: -1}
	cmd := &cobra.Command{
		Use:   "logs SESSION [PHASE/PERSONA]",
		Short: "Print or follow the output of a session's agents",
		Long: "Print the transcripts of a session's finished attempts, including failed ones, from the store. PHASE or PHASE/PERSONA " +
			"selects. " +
			"Only the first lines of each tool call and its result are shown, and what an agent program sends by itself, like its " +
			"system prompt, is one line; --full shows everything.\n\n" +
			"With -f, follow the session until it ends or waits for a person: what agents print, what models write and the tools that " +
			"they call, live, with the name of the assignment; " +
			"and attempts when they end. For checks, and for agents on other hosts, the newest lines come every few seconds. The exit " +
			"code is the session's outcome, as for `watch`. Without Temporal following only the store.",
		Example: "  maestro logs web-7 build/backend\n  maestro logs web-7 -f --tail 1",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case c.tail < 0 && cmd.Flags().Changed("tail"):
				return usagef("--tail: %d is less than 0", c.tail)
			case c.since < 0:
				return usagef("--since: %s is less than 0; give a duration like 90m", c.since)
			}
			c.session, c.selection = args[0], strings.Join(args[1:], "")
			return c.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&c.follow, "follow", "f", false, "follow until the session ends or waits for a person; -o json then prints one "+
		"document per line")
	flags.IntVar(&c.tail, "tail", c.tail, "start with this number of newest attempts; with 0, -f prints only new output "+
		"(default: all)")
	flags.BoolVar(&c.full, "full", false, "print complete tool calls and results; -o json always does")
	flags.DurationVar(&c.since, "since", 0, "start with the attempts that ended within this duration, like 90m (default: all)")
	return a.addServedFlags(cmd)
}

func (c *logsCommand) run(ctx context.Context) error {
	base := c.storeBase
	if c.follow {
		base = c.lookBase(c.openStore, "following only the store")
	}
	var err error
	if c.backend, err = c.served(base)(ctx); err != nil {
		return err
	}
	defer c.backend.close()
	if c.follow {
		return c.followLogs(ctx)
	}
	doc := logsDocument{Session: c.session}
	list, err := c.attempts(ctx)
	if err != nil {
		return err
	}
	finished := len(list.Attempts)
	if doc.Logs, err = c.newest(ctx, list); err != nil {
		return err
	}
	if c.output == outputJSON {
		return c.printJSON(doc)
	}
	if len(doc.Logs) == 0 && finished > 0 {
		c.printErr("--tail and --since omit %s", textfmt.Count(finished, "finished attempt"))
		return nil
	}
	c.write(doc)
	return nil
}

// newestOf selects attempts by --tail and --since, and keeps their order.
func (c *logsCommand) newestOf(logs []control.Attempt, now time.Time) []control.Attempt {
	newest := slices.SortedStableFunc(slices.Values(logs), func(x, y control.Attempt) int { return y.Ended().Compare(x.Ended()) })
	if c.tail >= 0 {
		newest = newest[:min(c.tail, len(newest))]
	}
	return slices.DeleteFunc(logs, func(l control.Attempt) bool {
		same := func(n control.Attempt) bool { return n.AttemptRef == l.AttemptRef }
		return c.since > 0 && now.Sub(l.Ended()) > c.since || !slices.ContainsFunc(newest, same)
	})
}

// filter selects the attempts.
func (c *logsCommand) filter() control.AttemptFilter {
	return control.AttemptFilter{Session: c.session, Assignment: control.Select(c.selection)}
}

// attempts lists the selected finished attempts in the order of the team file.
func (c *logsCommand) attempts(ctx context.Context) (control.AttemptList, error) {
	list, err := invoke(ctx, c.backend, httpapi.ListAttempts, c.filter())
	if list.Damage.Damage != "" {
		c.printErr("%s", list.Damage.Damage)
	}
	list.Attempts = slices.DeleteFunc(list.Attempts, inProgress)
	return list, c.explain(err)
}

// inProgress reports whether an attempt has not ended.
func inProgress(a control.Attempt) bool { return a.EndedAt == nil }

// newest has the attempts that --tail and --since select, with their texts.
func (c *logsCommand) newest(ctx context.Context, list control.AttemptList) ([]attemptLog, error) {
	logs := []attemptLog{}
	for _, a := range c.newestOf(list.Attempts, c.now()) {
		l, err := c.read(ctx, a)
		if err != nil {
			return nil, err
		}
		logs = append(logs, l)
	}
	return logs, nil
}

// read reads an attempt's texts.
func (c *logsCommand) read(ctx context.Context, a control.Attempt) (l attemptLog, err error) {
	l.Attempt = a
	l.AttemptLog, err = invoke(ctx, c.backend, httpapi.ReadAttemptLog, a.Input(c.session))
	return l, err
}

func (c *logsCommand) write(doc logsDocument) {
	if len(doc.Logs) == 0 {
		c.printErr("no attempt has finished yet; follow the session with `%s`", c.commandLine("logs -f "+doc.Session))
		return
	}
	for i, l := range doc.Logs {
		if i > 0 {
			c.print("")
		}
		writeLog(c.console, l, c.full)
	}
}

// framing matches the lines that `logs` prints between agents' output.
var framing = regexp.MustCompile(`(?m)^(== |-- decided |-- changes before the failure)`)

// printed returns an agent's output with a space before each line that looks like framing.
func printed(text string) string {
	return framing.ReplaceAllString(strings.TrimRight(safetext.Block(text), "\n"), " $1")
}

// writeLog prints an attempt; full prints its complete transcript.
func writeLog(c *console, l attemptLog, full bool) {
	c.print("%s", c.palette.Paint(terminal.Bold, l.title()))
	if l.Status == session.Failed {
		c.print("%s", c.palette.Paint(terminal.Red, fmt.Sprintf("%s: %s", l.Category, safetext.Line(l.Message))))
	}
	c.print("%s", c.palette.Paint(terminal.Dim, l.circumstances()))
	text := l.Text
	if !full {
		text = transcript.InBrief(text)
	}
	if text = printed(text); text != "" {
		c.print("%s", text)
	}
	if l.Output != "" && !strings.Contains(l.Text, strings.TrimSpace(l.Output)) {
		c.print("%s", printed(l.Output))
	}
	for _, name := range slices.Sorted(maps.Keys(l.Decisions)) {
		value := safetext.Line(l.Decisions[name])
		if !full {
			value = safetext.Clip(value, maxDecision)
		}
		c.print("%s %s = %s", c.palette.Paint(terminal.Dim, "-- decided"), safetext.Line(name), value)
	}
	if l.Changes != "" {
		c.print("%s\n%s", c.palette.Paint(terminal.Dim, "-- changes before the failure"),
			strings.TrimRight(safetext.Block(l.Changes), "\n"))
	}
}

// maxDecision bounds a decision's value without --full, in characters.
const maxDecision = 200

// title names the attempt and its outcome.
func (l attemptLog) title() string {
	pass := ""
	if l.Again {
		pass = fmt.Sprintf("pass %d, ", l.Pass)
	}
	return fmt.Sprintf("== %s, %sround %d, attempt %d: %s", l.AssignmentID, pass, l.Round, l.AttemptRef.Attempt, l.Status)
}

// circumstances describes the agent, the starting point, the duration and the cost.
func (l attemptLog) circumstances() string {
	text := terminal.Span(l.Ended().Sub(l.StartedAt))
	switch {
	case l.Supplied && l.Summary != "":
		return safetext.Line(l.Summary) + ", " + text
	case l.Supplied:
		return "files supplied by a person, " + text
	case l.Agent != "":
		text = l.Agent + ", " + text
	}
	switch l.From {
	case failures.FromFiles:
		text += ", from the files of the previous attempt"
	case failures.FromConversation:
		text += ", continuing its conversation"
	case failures.FromInput:
	}
	if l.Usage.Tokens() > 0 {
		text += fmt.Sprintf(", %s tokens%s", terminal.Number(l.Usage.Tokens()), terminal.Money(l.Usage))
	}
	return text
}
