package cli

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/temporalutil"
	"github.com/maestro-hive/maestro/internal/terminal"
)

// inboxDocument is the document of `inbox -o json`.
type inboxDocument struct {
	// Waiting has the open requests, those that have waited longest first, and after them
	// the notices of outages, which need no answer.
	Waiting []inboxEntry `json:"waiting"`
}

// inboxEntry is an open request of a session for a person.
type inboxEntry struct {
	Session string        `json:"session"`
	Team    string        `json:"team"`
	Status  session.State `json:"status"`
	Store   string        `json:"store"`
	// Request is its id; empty where only the session's state is known, because
	// its store is not at hand. So are the fields below that are not known then.
	Request  string              `json:"request"`
	Kind     session.RequestKind `json:"kind"`
	Phase    string              `json:"phase"`
	Persona  string              `json:"persona"`
	Category failures.Category   `json:"category"`
	Message  string              `json:"message"`
	Advice   string              `json:"advice"`
	Actions  []session.Action    `json:"actions"`
	Since    *time.Time          `json:"since"`
	Until    *time.Time          `json:"until"`
	// Usage is the session's so far.
	Usage  cost.Usage      `json:"usage"`
	Ticket *session.Ticket `json:"ticket"`
	// Commands are the commands that answer it, the one that continues first.
	Commands []string `json:"commands"`
}

// waitingSession is a session that waits for a person.
type waitingSession struct {
	session.Status
	Store string
	// known: its requests are known. Otherwise only the fields of a listing are.
	known bool
	// lost: Temporal no longer has the session, so it takes no answer
	// before it is resumed from the store.
	lost bool
}

// inboxCommand is `inbox`.
type inboxCommand struct {
	*console
	*connector
}

func newInbox(a *app) *cobra.Command {
	c := inboxCommand{a.console, a.connector}
	cmd := &cobra.Command{
		Use:   "inbox",
		Short: "List open requests to a person, over all sessions",
		Long: "List open requests to a person, over all sessions of the namespace: the kind, since when, the session's cost, and the command that answers it. " +
			"This works without a worker. For sessions in other stores it shows what Temporal has; sessions that Temporal has lost must be resumed first.",
		Args: cmdline.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	a.addSessionFlags(cmd)
	return cmd
}

func (c *inboxCommand) run(ctx context.Context) error {
	s, conn, err := c.storeOrTemporal(ctx)
	if err != nil {
		return err
	}
	if conn != nil {
		defer conn.Close()
	}
	found, err := c.waitingSessions(ctx, conn, s)
	if err != nil {
		return err
	}
	doc := inboxDocument{Waiting: []inboxEntry{}}
	for _, w := range found {
		doc.Waiting = append(doc.Waiting, c.entries(w)...)
	}
	slices.SortStableFunc(doc.Waiting, func(x, y inboxEntry) int { return timeOf(x.Since).Compare(timeOf(y.Since)) })
	slices.SortStableFunc(doc.Waiting, func(x, y inboxEntry) int { return cmp.Compare(x.rank(), y.rank()) })
	return c.result(doc, func() { c.write(doc) })
}

// waitingSessions finds the sessions that wait for a person. What the store has of its
// own sessions is confirmed by Temporal where conn is not nil, and Temporal
// adds those of other stores.
func (c *connector) waitingSessions(ctx context.Context, conn *temporalutil.Connection, s *store.Store) ([]waitingSession, error) {
	namespace, err := c.namespace()
	if err != nil {
		return nil, err
	}
	var stored []session.Execution
	if s != nil {
		// Unreadable documents are reported by `checkpoints verify`.
		stored, _ = s.Executions(ctx, namespace)
	}
	running, open := []listedSession{}, map[string]bool{}
	if conn != nil {
		if running, err = visible(ctx, conn, allSessions, "ExecutionStatus = 'Running'"); err != nil {
			return nil, err
		}
	}
	for _, l := range running {
		open[l.Session] = true
	}
	var found []waitingSession
	mine := map[string]bool{}
	for _, e := range stored {
		mine[e.Session] = true
		if e.Status.Status.Closed() || len(e.Help) == 0 {
			continue
		}
		w := waitingSession{Status: withLedgerCosts(s, namespace, e), Store: e.Store, known: true}
		if conn != nil && !open[e.Session] { // visibility may lag
			info, err := c.sessionInfo(ctx, conn, e.Session)
			switch {
			case err != nil:
				return nil, err
			case info == nil:
				w.lost = true
			case info.GetCloseTime() != nil || info.GetExecution().GetRunId() != e.RunID:
				continue
			}
		}
		found = append(found, w)
	}
	for _, l := range running {
		waits := l.Status == session.HelpIsNeeded || l.Status == session.AwaitingApproval
		if waits && (!mine[l.Session] || l.Store != s.ID()) {
			found = append(found, waitingSession{Status: session.Status{
				Session: l.Session, Team: l.Team, Status: l.Status, Usage: l.usage, Reason: l.reason,
			}, Store: l.Store})
		}
	}
	return found, nil
}

// withLedgerCosts is a stored status with the costs of the ledger.
func withLedgerCosts(s *store.Store, namespace string, e session.Execution) session.Status {
	if l, err := s.Ledger(session.Key{Namespace: namespace, Session: e.Session}); err == nil {
		return sessionstatus.Accounted(e.Status, &l)
	}
	return e.Status
}

// entries lists what a session waits with.
func (c *inboxCommand) entries(w waitingSession) []inboxEntry {
	if !w.known {
		kind := session.ForHelp
		if w.Status.Status == session.AwaitingApproval {
			kind = session.ForApproval
		}
		return []inboxEntry{{
			Session: w.Session, Team: w.Team, Status: w.Status.Status, Store: w.Store, Kind: kind, Message: w.Reason, Usage: w.Usage,
			Actions: []session.Action{}, Commands: []string{c.commandLine("status " + w.Session)},
		}}
	}
	var all []inboxEntry
	for _, h := range w.Help {
		e := inboxEntry{
			Session: w.Session, Team: w.Team, Status: w.Status.Status, Store: w.Store, Request: h.ID, Kind: kindOf(h), Phase: h.Phase, Persona: h.Persona,
			Category: h.Category, Message: h.Message, Advice: h.Advice, Actions: append([]session.Action{}, h.Actions...),
			Since: unlessZero(h.Since), Until: unlessZero(h.Until), Usage: w.Usage, Ticket: h.Ticket, Commands: []string{},
		}
		if w.lost {
			e.Commands = []string{c.commandLine("resume " + w.Session)}
			all = append(all, e)
			continue
		}
		for _, answer := range requestCommands(w.Session, h, w.Help) {
			e.Commands = append(e.Commands, c.commandLine(answer.command))
		}
		all = append(all, e)
	}
	return all
}

// noticeOnly reports whether the entry is a notice only: the session continues by itself.
func (e inboxEntry) noticeOnly() bool { return e.Kind.NoticeOnly() }

// rank sorts notices after requests.
func (e inboxEntry) rank() int {
	if e.noticeOnly() {
		return 1
	}
	return 0
}

func unlessZero(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// request is the entry's request, as far as it is known. Requests for money that have
// the same first command are for the same budget.
func (e inboxEntry) request() session.Request {
	h := session.Request{ID: e.Request, Kind: e.Kind, Phase: e.Phase, Persona: e.Persona, Category: e.Category, Message: e.Message}
	if len(e.Commands) > 0 && e.Request != "" {
		h.Command = e.Commands[0]
	}
	return h
}

func (d inboxDocument) requestsOf(sessionID string) []session.Request {
	var all []session.Request
	for _, e := range d.Waiting {
		if e.Session == sessionID {
			all = append(all, e.request())
		}
	}
	return all
}

func (c *inboxCommand) write(doc inboxDocument) {
	if !slices.ContainsFunc(doc.Waiting, func(e inboxEntry) bool { return !e.noticeOnly() }) {
		c.printErr("no open requests")
	}
	if len(doc.Waiting) == 0 {
		return
	}
	t := c.table("SESSION", "TEAM", "NEEDS", "OF", "WAITS", "TOKENS", "USD", "TICKET", "WHY")
	for _, e := range doc.Waiting {
		h := e.request()
		n, first := answeredTogether(h, doc.requestsOf(e.Session))
		if !first {
			continue
		}
		waits, ticket := "-", "-"
		if e.Since != nil {
			waits = terminal.Age(c.now().Sub(*e.Since))
		}
		if e.Ticket != nil {
			ticket = cmp.Or(safetext.Line(e.Ticket.Key), "not yet")
		}
		t.Add(terminal.Plain(e.Session), terminal.Plain(terminal.Dash(e.Team)), terminal.Painted(string(e.Kind), terminal.StateColour(e.Status)), terminal.Plain(terminal.Dash(subjects(h, n))), terminal.Plain(waits),
			terminal.Plain(terminal.Number(e.Usage.Tokens())), terminal.Plain(terminal.Dollars(e.Usage.CostUSD)), terminal.Plain(ticket), terminal.Painted(messageOf(h), terminal.Dim))
	}
	c.writeFitted(t, "TOKENS", "USD", "TEAM")
	c.writeCommands(doc, "answer with (--note TEXT adds a note):", false)
	c.writeCommands(doc, "these continue without an answer:", true)
}

// writeCommands lists a command for each session: the first answer, or for notices `status`.
func (c *inboxCommand) writeCommands(doc inboxDocument, heading string, goesOn bool) {
	said := map[string]bool{} // a session that is resumed may ask for more than one thing
	for _, e := range doc.Waiting {
		if e.noticeOnly() != goesOn {
			continue
		}
		if len(said) == 0 {
			c.print("\n%s", heading)
		}
		command := c.commandLine("status " + e.Session)
		if len(e.Commands) > 0 && !goesOn {
			command = e.Commands[0]
		}
		if !said[command] {
			c.print("  %s", command)
		}
		said[command] = true
	}
}
