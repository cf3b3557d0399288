package cli

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/team"
	"github.com/maestro-hive/maestro/internal/temporalio"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/view"
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
}

// listedSession is a session in a listing.
type listedSession struct {
	Session string     `json:"session"`
	Team    string     `json:"team"`
	Status  team.State `json:"status"`
	// Phases are the phases under way.
	Phases []string `json:"phases"`
	Tokens int64    `json:"tokens"`
	// Store is the id of the session's store.
	Store       string     `json:"store"`
	Requirement string     `json:"requirement"`
	StartedAt   *time.Time `json:"started_at"`
	ClosedAt    *time.Time `json:"closed_at"`
	// Temporal tells whether Temporal knows the session; one that it has
	// forgotten is listed from the store.
	Temporal bool `json:"temporal"`

	// usage is what Temporal knows of its costs, which may be less than Tokens.
	usage team.Usage
	// reason is its memo's.
	reason string
}

func newList(a *app) *cobra.Command {
	limit := 50
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List sessions, the newest first",
		Long:  "List the sessions that Temporal knows, and those that it has forgotten and the store still has.",
		Args:  arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usagef("--limit is %d; it must be at least 1", limit)
			}
			return a.list(cmd.Context(), limit)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "most sessions to list")
	a.addTemporalFlags(cmd)
	a.addStateDirFlag(cmd)
	a.addOutputFlag(cmd)
	return cmd
}

func (a *app) list(ctx context.Context, limit int) error {
	s, conn, err := a.both(ctx, a.findStore)
	if err != nil {
		return err
	}
	defer conn.Close()
	doc, err := listing(ctx, conn, s, limit)
	if err != nil {
		return err
	}
	if a.output == outputJSON {
		return a.printJSON(doc)
	}
	a.writeList(doc)
	return nil
}

// listing merges what Temporal and the store know.
func listing(ctx context.Context, conn *temporalio.Connection, s *store.Store, limit int) (listDocument, error) {
	var doc listDocument
	known, err := visible(ctx, conn, limit+1, "")
	if err != nil {
		return doc, err
	}
	if s != nil {
		// What cannot be read is `checkpoints verify`'s to report.
		mirrored, _ := s.Executions(ctx, conn.Namespace)
		known = join(known, mirrored)
	}
	slices.SortStableFunc(known, func(x, y listedSession) int { return timeOf(y.StartedAt).Compare(timeOf(x.StartedAt)) })
	doc.Sessions, doc.More = known, len(known) > limit
	if doc.More {
		doc.Sessions = known[:limit]
	}
	return doc, nil
}

// visible lists the sessions that Temporal knows and for which a condition holds,
// the newest first. An empty condition holds for all.
func visible(ctx context.Context, conn *temporalio.Connection, limit int, condition string) ([]listedSession, error) {
	out := []listedSession{}
	listed := map[string]bool{} // only the newest incarnation of each
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: conn.Namespace, PageSize: listPage,
		Query: "WorkflowType = '" + workflows.TeamSessionName + "'",
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
	summary := view.Memo[workflows.MemoSummary](info, workflows.MemoStatus)
	l := listedSession{
		Session: info.GetExecution().GetWorkflowId(), Team: view.Memo[string](info, workflows.MemoTeam),
		Store: view.Memo[string](info, workflows.MemoStore), Requirement: view.Memo[string](info, workflows.MemoRequirement),
		Phases: []string{}, Tokens: summary.Usage.Tokens(), Temporal: true, usage: summary.Usage, reason: summary.Reason,
	}
	if t := info.GetStartTime(); t != nil {
		started := t.AsTime()
		l.StartedAt = &started
	}
	if t := info.GetCloseTime(); t != nil {
		closed := t.AsTime()
		l.ClosedAt = &closed
	}
	l.Status = view.ClosedState(info.GetStatus())
	if info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		l.Status = team.Running
		if s := attribute[string](info, workflows.AttributeStatus.GetName()); s != "" && !team.State(s).Closed() {
			l.Status = team.State(s)
		}
		l.Phases = append(l.Phases, attribute[[]string](info, workflows.AttributePhase.GetName())...)
	}
	if n := attribute[int64](info, workflows.AttributeTokens.GetName()); n > 0 {
		l.Tokens = n
	}
	return l
}

// attribute reads a search attribute; its zero where there is none.
func attribute[T any](info *workflowpb.WorkflowExecutionInfo, name string) T {
	var value, none T
	payload, ok := info.GetSearchAttributes().GetIndexedFields()[name]
	if !ok || converter.GetDefaultDataConverter().FromPayload(payload, &value) != nil {
		return none
	}
	return value
}

// fromStore is a session as the store mirrors it.
func fromStore(e team.Execution) listedSession {
	l := listedSession{
		Session: e.Session, Team: e.Team, Status: e.Status.Status, Phases: []string{}, Tokens: e.Usage.Tokens(),
		Store: e.Store, StartedAt: e.StartedAt, ClosedAt: e.ClosedAt,
	}
	for _, p := range e.Phases {
		if p.Status == team.Running && !l.Status.Closed() {
			l.Phases = append(l.Phases, p.Name)
		}
	}
	return l
}

// join adds the store's sessions to Temporal's. Of a session that both know,
// Temporal says whether it runs, and the store what it has used so far.
func join(known []listedSession, mirrored []team.Execution) []listedSession {
	at := map[string]int{}
	for i, l := range known {
		at[l.Session] = i
	}
	for _, e := range mirrored {
		m := fromStore(e)
		i, ok := at[m.Session]
		switch {
		case !ok:
			known = append(known, m)
		case known[i].Store == m.Store:
			known[i].Tokens = max(known[i].Tokens, m.Tokens)
			if known[i].Status == team.Running && m.Status == team.WaitingForBreaker {
				known[i].Status = m.Status
			}
			if len(known[i].Phases) == 0 && !known[i].Status.Closed() {
				known[i].Phases = m.Phases
			}
		}
	}
	return known
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func (a *app) writeList(doc listDocument) {
	if len(doc.Sessions) == 0 {
		a.say("there are no sessions yet; start one with `maestro run TEAM TEXT`")
		return
	}
	t := terminal.NewTable(a.palette)
	t.Head("SESSION", "TEAM", "STATE", "PHASE", "TOKENS", "STARTED", "TOOK")
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
			terminal.Plain(terminal.Number(l.Tokens)), terminal.Plain(terminal.Moment(l.StartedAt)), terminal.Plain(took))
	}
	t.Write(a.env.Stdout)
	waiting := 0
	for _, l := range doc.Sessions {
		if l.Status == team.HelpIsNeeded || l.Status == team.AwaitingApproval {
			waiting++
		}
	}
	if waiting > 0 {
		a.say("%s for a person: `%s`", terminal.Verbed(waiting, "session", "waits", "wait"), a.again("inbox"))
	}
	if doc.More {
		a.say("%s", fmt.Sprintf("there are more; see them with --limit %d", 2*len(doc.Sessions)))
	}
}
