package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

func newInbox(a *app) *cobra.Command {
	return a.addServedFlags(&cobra.Command{
		Use:   "inbox",
		Short: "List open requests to a person, over all sessions",
		Long: "List open requests to a person, over all sessions of the namespace: the kind, since when, the session's cost, and the " +
			"command that answers it. " +
			"This works without a worker. For sessions in other stores it shows what Temporal has; sessions that Temporal has lost must " +
			"be resumed first.",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.inbox(cmd.Context()) },
	})
}

func (a *app) inbox(ctx context.Context) error {
	doc, err := ask(ctx, a.connector, a.served(a.shownBase), httpapi.ListRequests, control.InboxFilter{})
	if err != nil {
		return err
	}
	for _, e := range doc.Waiting {
		for i, command := range e.Commands {
			e.Commands[i] = a.commandLine(strings.TrimPrefix(command, "maestro "))
		}
	}
	return a.result(doc, func() { a.writeInbox(doc) })
}

func (a *app) writeInbox(doc control.Inbox) {
	if !slices.ContainsFunc(doc.Waiting, func(e control.InboxEntry) bool { return !e.NoticeOnly() }) {
		a.printErr("no open requests")
	}
	if len(doc.Waiting) == 0 {
		return
	}
	t := a.table("SESSION", "TEAM", "NEEDS", "OF", "WAITS", "TOKENS", "USD", "TICKET", "WHY")
	for _, e := range doc.Waiting {
		h, n := e.Request, 1+len(e.Also)
		waits, ticket := "-", "-"
		if !e.Since.IsZero() {
			waits = terminal.Age(a.now().Sub(e.Since))
		}
		if e.Ticket != nil {
			ticket = cmp.Or(safetext.Line(e.Ticket.Key), "not yet")
		}
		t.Add(e.Session, terminal.Dash(e.Team), terminal.Painted(string(e.Kind), terminal.StateColour(e.Status)),
			terminal.Dash(subjects(h, n)), waits,
			terminal.Number(e.Usage.Tokens()), terminal.Dollars(e.Usage.CostUSD), ticket, terminal.Painted(messageOf(h), terminal.Dim))
	}
	a.writeFitted(t, "TOKENS", "USD", "TEAM")
	a.writeCommands(doc, "answer with (--note TEXT adds a note):", false)
	a.writeCommands(doc, "these continue without an answer:", true)
}

// writeCommands lists a command for each session: the first answer, or for notices `status`.
func (a *app) writeCommands(doc control.Inbox, heading string, goesOn bool) {
	said := map[string]bool{} // a session that is resumed may ask for more than one thing
	for _, e := range doc.Waiting {
		if e.NoticeOnly() != goesOn {
			continue
		}
		if len(said) == 0 {
			a.print("\n%s", heading)
		}
		command := a.commandLine("status " + e.Session)
		if len(e.Commands) > 0 && !goesOn {
			command = e.Commands[0]
		}
		if !said[command] {
			a.print("  %s", command)
		}
		said[command] = true
	}
}
