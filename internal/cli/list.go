package cli

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/temporalutil"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/workflows"
)

const (
	// listPage is how many sessions are asked for at once.
	listPage = 200
	// allSessions is a limit that bounds no listing.
	allSessions = math.MaxInt
)

// listDocument is the document of `list -o json`.
type listDocument struct {
	// Sessions are the newest first.
	Sessions []listedSession `json:"sessions"`
	// More: there are sessions beyond the limit.
	More bool `json:"more"`
	// Cursor is that of the next page; empty: there is none.
	Cursor string `json:"cursor"`
}

// listedSession is a session in a listing.
type listedSession struct {
	Session string        `json:"session"`
	Team    string        `json:"team"`
	Status  session.State `json:"status"`
	// Phases are the phases under way.
	Phases  []string `json:"phases"`
	Tokens  int64    `json:"tokens"`
	CostUSD cost.USD `json:"cost_usd"`
	// Store is the id of the session's store.
	Store       string     `json:"store"`
	Requirement string     `json:"requirement"`
	StartedAt   *time.Time `json:"started_at"`
	ClosedAt    *time.Time `json:"closed_at"`
	// Temporal reports whether Temporal knows the session; one that it has
	// forgotten is listed from the store.
	Temporal bool `json:"temporal"`

	// run is its newest run, and ran when that started, by which a listing is sorted; zero
	// where only the store has the session.
	run string
	ran time.Time
	// usage is what Temporal knows of its costs, which may be less than Tokens.
	usage cost.Usage
	// reason is its memo's.
	reason string
}

// listCommand is `list`.
type listCommand struct {
	*console
	*connector
	selection
}

func newList(a *app) *cobra.Command {
	c := listCommand{console: a.console, connector: a.connector}
	o := listFlags{limit: 50}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List sessions, newest first",
		Long: "List the sessions in Temporal, and those that only the store still has. " +
			"If Temporal cannot be reached, only the store is listed.",
		Example: "  maestro list --team web --status help_needed\n  maestro list --since 7d --limit 20",
		Args:    cmdline.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if c.selection, err = o.selection(c.now()); err != nil {
				return err
			}
			return c.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.limit, "limit", o.limit, "maximum number of sessions")
	flags.StringVar(&o.team, "team", "", "only sessions of this team")
	flags.StringVar(&o.status, "status", "", "only sessions in this state: "+strings.Join(sessionStates, ", "))
	flags.StringVar(&o.since, "since", "", "only sessions started since a date, like 2026-11-21, or within a duration, like 7d or 12h")
	flags.StringVar(&o.cursor, "cursor", "", "continue after the page that ended with this cursor")
	a.addSessionFlags(cmd)
	return cmd
}

func (c *listCommand) run(ctx context.Context) error {
	s, conn, err := c.storeOrTemporal(ctx)
	if err != nil {
		return err
	}
	if conn != nil {
		defer conn.Close()
	}
	doc, err := c.listing(ctx, conn, s)
	if err != nil {
		return err
	}
	return c.result(doc, func() { c.write(doc) })
}

// listing merges what Temporal and the store know. One of them may be nil.
func (c *listCommand) listing(ctx context.Context, conn *temporalutil.Connection, s *store.Store) (doc listDocument, err error) {
	namespace, err := c.namespace()
	if err != nil {
		return doc, err
	}
	known := []listedSession{}
	if conn != nil {
		namespace = conn.Namespace
		most := allSessions
		if c.all() {
			most = c.limit + 1
		}
		if known, err = visible(ctx, conn, most, c.condition()); err != nil {
			return doc, err
		}
	}
	if s == nil {
		return c.page(known), nil
	}
	// Unreadable documents are reported by `checkpoints verify`.
	stored, _ := s.Executions(ctx, namespace)
	heads := map[string]spec.Digest{}
	for _, e := range stored {
		heads[e.Session] = e.Checkpoint
	}
	doc = c.page(join(known, stored))
	for i, l := range doc.Sessions {
		if l.Store != s.ID() {
			continue
		}
		if ledger, err := s.Ledger(session.Key{Namespace: namespace, Session: l.Session}); err == nil {
			used := ledger.Usage()
			doc.Sessions[i].Tokens, doc.Sessions[i].CostUSD = used.Tokens(), used.CostUSD
		}
		if l.Requirement == "" {
			if checkpoint, err := s.Checkpoint(ctx, heads[l.Session]); err == nil {
				doc.Sessions[i].Requirement = checkpoint.Requirement
			}
		}
	}
	return doc, nil
}

// visible lists the sessions that Temporal knows and for which a condition holds,
// the newest first. An empty condition holds for all.
func visible(ctx context.Context, conn *temporalutil.Connection, limit int, condition string) ([]listedSession, error) {
	out := []listedSession{}
	listed := map[string]bool{} // only the newest incarnation of each
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: conn.Namespace, PageSize: listPage,
		Query: "WorkflowType = '" + workflows.TeamSessionName + "' AND ExecutionStatus != 'ContinuedAsNew'",
	}
	if condition != "" {
		request.Query += " AND " + condition
	}
	for {
		answer, err := conn.ListWorkflow(ctx, request)
		if err != nil {
			return nil, err
		}
		for _, info := range answer.GetExecutions() {
			if l := fromVisibility(info); !listed[l.Session] {
				listed[l.Session] = true
				out = append(out, l)
			}
		}
		request.NextPageToken = answer.GetNextPageToken()
		if len(request.NextPageToken) == 0 || len(out) >= limit {
			return out, nil
		}
	}
}

func fromVisibility(info *workflowpb.WorkflowExecutionInfo) listedSession {
	summary := sessionstatus.Memo[workflows.MemoSummary](info, workflows.MemoStatus)
	l := listedSession{
		Session: info.GetExecution().GetWorkflowId(), Team: sessionstatus.Memo[string](info, workflows.MemoTeam),
		Store: sessionstatus.Memo[string](info, workflows.MemoStore), Requirement: sessionstatus.Memo[string](info, workflows.MemoRequirement),
		Phases: []string{}, Tokens: summary.Usage.Tokens(), Temporal: true, CostUSD: summary.Usage.CostUSD, usage: summary.Usage, reason: summary.Reason,
	}
	if t := info.GetStartTime(); t != nil {
		started := t.AsTime()
		l.StartedAt, l.ran, l.run = &started, started, info.GetExecution().GetRunId()
	}
	if t := info.GetCloseTime(); t != nil {
		closed := t.AsTime()
		l.ClosedAt = &closed
	}
	l.Status = sessionstatus.ClosedState(info.GetStatus())
	if info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		l.Status = session.Running
		if s := attribute[string](info, workflows.AttributeStatus.GetName()); s != "" && !session.State(s).Closed() {
			l.Status = session.State(s)
		}
		l.Phases = append(l.Phases, attribute[[]string](info, workflows.AttributePhase.GetName())...)
	}
	if n := attribute[int64](info, workflows.AttributeTokens.GetName()); n > 0 {
		l.Tokens = n
	}
	return l
}

// attribute reads a search attribute; its zero task queue.
func attribute[T any](info *workflowpb.WorkflowExecutionInfo, name string) T {
	var value, none T
	payload, ok := info.GetSearchAttributes().GetIndexedFields()[name]
	if !ok || converter.GetDefaultDataConverter().FromPayload(payload, &value) != nil {
		return none
	}
	return value
}

// fromStore is a session as its status document has it.
func fromStore(e session.Execution) listedSession {
	l := listedSession{
		Session: e.Session, Team: e.Team, Status: e.Status.Status, Phases: []string{},
		Store: e.Store, StartedAt: e.StartedAt, ClosedAt: e.ClosedAt,
	}
	for _, p := range e.Phases {
		if !l.Status.Closed() && (p.Status == session.Running || p.Status == session.AwaitingApproval) {
			l.Phases = append(l.Phases, p.Name)
		}
	}
	return l
}

// join adds the store's sessions to Temporal's. Of a session that both know,
// Temporal says whether it runs.
func join(known []listedSession, stored []session.Execution) []listedSession {
	at := map[string]int{}
	for i, l := range known {
		at[l.Session] = i
	}
	for _, e := range stored {
		m := fromStore(e)
		i, ok := at[m.Session]
		switch {
		case !ok:
			known = append(known, m)
		case known[i].Store == m.Store:
			if known[i].Status == session.Running && m.Status == session.WaitingForBreaker {
				known[i].Status = m.Status
			}
			if e.RunID == known[i].run && e.FirstRun != e.RunID && e.StartedAt != nil { // it has continued as new
				known[i].StartedAt = e.StartedAt
			}
			if len(known[i].Phases) == 0 && !known[i].Status.Closed() {
				known[i].Phases = m.Phases
			}
		}
	}
	return known
}

// order is when the newest run of a session started.
func (l listedSession) order() time.Time {
	if l.ran.IsZero() {
		return timeOf(l.StartedAt)
	}
	return l.ran
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func (c *listCommand) write(doc listDocument) {
	switch {
	case len(doc.Sessions) == 0 && !c.all():
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
		t.Add(terminal.Plain(l.Session), terminal.Plain(terminal.Dash(l.Team)), terminal.Painted(state, terminal.StateColour(l.Status)), terminal.Plain(strings.Join(l.Phases, ", ")),
			terminal.Plain(terminal.Number(l.Tokens)), terminal.Plain(terminal.Dollars(l.CostUSD)), terminal.Plain(terminal.Moment(l.StartedAt)), terminal.Plain(took),
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
