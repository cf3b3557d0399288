package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// listCommand is `list`.
type listCommand struct {
	*console
	*connector
	control.SessionFilter
}

func newList(a *app) *cobra.Command {
	c := listCommand{console: a.console, connector: a.connector}
	var status, since string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List sessions, newest first",
		Long: "List the sessions in Temporal, and those that only the store still has. " +
			"If Temporal cannot be reached, only the store is listed.",
		Example: "  maestro list --team web --status help_needed\n  maestro list --since 7d --limit 20",
		Args:    cmdline.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.Status = session.State(status)
			var err error
			if c.Since, err = parseStart(since, c.now()); err != nil {
				return err
			}
			if err := c.Check(); err != nil {
				return inputError(err)
			}
			return c.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&c.Limit, "limit", 50, "maximum number of sessions")
	flags.StringVar(&c.Team, "team", "", "only sessions of this team")
	flags.StringVar(&status, "status", "", "only sessions in this state: "+strings.Join(words(control.States()), ", "))
	flags.StringArrayVar(&c.Labels, "label", nil, "only sessions with this label, KEY=VALUE; may be given several times")
	flags.StringVar(&since, "since", "", "only sessions started since a date, like 2026-11-21, or within a duration, like 7d or 12h")
	flags.StringVar(&c.Cursor, "cursor", "", "continue after the page that ended with this cursor")
	a.addServedFlags(cmd)
	return cmd
}

func (c *listCommand) run(ctx context.Context) error {
	p, err := c.plane(ctx, c.storeOrTemporalBase)
	if err != nil {
		return err
	}
	defer p.close()
	doc, err := invoke(ctx, p, httpapi.ListSessions, c.SessionFilter)
	if err != nil {
		return inputError(err)
	}
	return c.result(doc, func() { c.write(doc) })
}

func (c *listCommand) write(doc control.SessionList) {
	switch {
	case len(doc.Sessions) == 0 && !c.All():
		c.printErr("no session matches")
		return
	case len(doc.Sessions) == 0:
		c.printErr("no sessions yet; start one with `maestro run TEAM TEXT`")
		return
	}
	t := c.table("SESSION", "TEAM", "STATE", "PHASE", "TOKENS", "USD", "STARTED", "TOOK", "REQUIREMENT")
	for _, l := range doc.Sessions {
		took := ""
		if l.StartedAt != nil && l.ClosedAt != nil {
			took = terminal.Span(l.ClosedAt.Sub(*l.StartedAt))
		}
		state := string(l.Status)
		if !l.Temporal {
			state += " (store only)"
		}
		t.Add(l.Session, terminal.Dash(l.Team), terminal.Painted(state, terminal.StateColour(l.Status)), strings.Join(l.Phases, ", "),
			terminal.Number(l.Tokens), terminal.Dollars(l.CostUSD), terminal.Moment(l.StartedAt), took,
			terminal.Painted(safetext.Line(l.Requirement), terminal.Dim))
	}
	c.writeFitted(t, "TOOK", "TOKENS", "PHASE", "TEAM")
	waiting := 0
	for _, l := range doc.Sessions {
		if l.Status == session.HelpIsNeeded || l.Status == session.AwaitingApproval {
			waiting++
		}
	}
	if waiting > 0 {
		c.printErr("%s open: `%s`", terminal.Verbed(waiting, "session", "waits", "wait"), c.commandLine("inbox"))
	}
	if doc.More {
		c.printErr("more: --cursor %s", doc.Cursor)
	}
}

// parseStart reads a moment: a date by UTC, a time, or how long ago it was.
func parseStart(since string, now time.Time) (time.Time, error) {
	if since == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, since); err == nil {
			return t, nil
		}
	}
	ago, err := parseAgo(since)
	if err != nil {
		return time.Time{}, usagef("--since: %q is neither a date like 2026-11-21 nor a duration like 7d, 12h or 1d12h", textfmt.Shorten(since, 80))
	}
	return now.Add(-ago), nil
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
