package cli

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// auditCommand is `audit`.
type auditCommand struct {
	*console
	*storeOpener
	filter access.EventFilter
}

func newAudit(a *app) *cobra.Command {
	c := auditCommand{console: a.console, storeOpener: a.storeOpener}
	var since string
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "List who changed what, newest first",
		Long: "List the changes that people and programs made to sessions, budgets, breakers, teams and tokens, and sign-ins that failed. " +
			"An unknown outcome means that the change is under way, or that the program ended before the change did.",
		Example: "  maestro audit --since 7d\n  maestro audit --session SESSION -o json",
		Args:    cmdline.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if c.filter.Since, err = parseStart(since, c.now()); err != nil {
				return err
			}
			if c.filter.Limit < 1 || c.filter.Limit > 1000 {
				return usagef("--limit: %d is not between 1 and 1000", c.filter.Limit)
			}
			return c.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&since, "since", "", "only events since a date, like 2026-11-21, or within a duration, like 7d or 12h")
	flags.StringVar(&c.filter.Session, "session", "", "only events of this session")
	flags.StringVar(&c.filter.Actor, "actor", "", "only what this person or token did, and the tokens of this person")
	flags.StringVar(&c.filter.Team, "team", "", "only events of this team")
	flags.StringVar(&c.filter.Action, "action", "", "only this action, like session.cancel, or those of a noun, like session")
	flags.IntVar(&c.filter.Limit, "limit", 100, "maximum number of events")
	flags.StringVar(&c.filter.Cursor, "cursor", "", "continue after the page that ended with this cursor")
	a.addStateDirFlag(cmd)
	a.addOutputFlag(cmd)
	return cmd
}

func (c *auditCommand) run(ctx context.Context) error {
	s, err := c.openStore()
	if err != nil {
		return err
	}
	page, err := access.NewAudit(s.State, c.now).Events(ctx, c.filter)
	if errors.Is(err, access.ErrCursor) {
		return usagef("--cursor: %w", err)
	}
	if err != nil {
		return err
	}
	return c.result(page, func() { c.write(page) })
}

func (c *auditCommand) write(page access.EventPage) {
	if len(page.Events) == 0 {
		c.printErr("no events")
		return
	}
	t := c.table("WHEN", "WHO", "VIA", "FROM", "ACTION", "ON", "OUTCOME", "DETAIL")
	for _, e := range page.Events {
		at := e.At
		on := strings.TrimSpace(cmp.Or(e.Session, e.Team) + " " + e.Subject)
		detail := e.Detail
		if e.Error != "" {
			detail = strings.TrimSpace(detail + " (" + e.Error + ")")
		}
		t.Add(terminal.Moment(&at), terminal.Dash(e.Who()), terminal.Dash(string(e.Via)),
			terminal.Dash(e.From), e.Action, terminal.Dash(on),
			terminal.Painted(string(e.Outcome), outcomeColour(e.Outcome)), terminal.Dash(detail))
	}
	c.writeFitted(t, "FROM", "VIA")
	if page.Cursor != "" {
		c.printErr("there are more; continue with --cursor %s", page.Cursor)
	}
}

func outcomeColour(o access.Outcome) terminal.Colour {
	switch o {
	case access.Done:
		return ""
	case access.Unknown:
		return terminal.Yellow
	default:
		return terminal.Red
	}
}
