package sessionstatus

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/store/state"
	"github.com/maestro-hive/maestro/workflows"
)

// facts are the data of all sources.
type facts struct {
	// away: Temporal could not be asked.
	away bool
	// description is nil for a session that Temporal does not have.
	description *workflowservice.DescribeWorkflowExecutionResponse
	// document is the status document, joined with records; nil if the store does not have it.
	document *session.Execution
	// account is nil if there is no document.
	account *state.Account
	// unreadable is the reason why the document cannot be read at the moment.
	unreadable error
	// wait is what the session needs the store for; empty: nothing.
	wait string
	// end is the end of a closed session that did not complete.
	end error
	// idle lists the queues with work that have no poller.
	idle []string
	// stalled is why the session makes no progress although workers poll for its work; empty: it does.
	stalled string
}

// info is the part of the description on the session itself; nil without one.
func (f facts) info() *workflowpb.WorkflowExecutionInfo {
	return f.description.GetWorkflowExecutionInfo()
}

// behind reports whether the document is that of an earlier run of the session: the current one is
// not admitted yet, or was refused. A run that was reset, or that continued as new, uses the
// document of the previous one.
func (f facts) behind() bool {
	if f.document == nil || f.description == nil {
		return false
	}
	info := f.info()
	continued := f.document.FirstRun != "" && f.document.FirstRun == info.GetFirstRunId()
	return f.document.RunID != info.GetExecution().GetRunId() && !continued
}

// merge adds to the status document what only Temporal has: whether the session has ended, and how;
// retry times, queues and heartbeats. Without a document, it uses the search attributes and the memo.
func merge(sessionID string, f facts) Session {
	v := base(sessionID, f)
	addCosts(&v, f.account)
	if f.away {
		return complete(v)
	}
	if f.description == nil {
		v.Notes = append(v.Notes, "Temporal no longer has this session; showing its state in the store; `maestro resume` continues it")
		return complete(v)
	}
	info := f.info()
	v.RunID, v.HistoryEvents = info.GetExecution().GetRunId(), info.GetHistoryLength()
	v.Requirement = Memo[string](info, workflows.MemoRequirement)
	v.firstRun = info.GetFirstRunId()
	if info.GetStartTime() != nil && (cmp.Or(v.firstRun, v.RunID) == v.RunID || v.StartedAt == nil) {
		started := info.GetStartTime().AsTime()
		v.StartedAt = &started
	}
	if f.unreadable != nil {
		v.Notes = append(v.Notes, "the session's state in the store cannot be read: "+textfmt.FirstLine(f.unreadable.Error()))
	}
	if f.wait != "" {
		v.Notes = append(v.Notes, f.wait)
	}
	if info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		overlay(&v, f)
		v.Warnings = warnings(f.account)
	} else {
		end(&v, f)
	}
	return complete(v)
}

// base is the most detailed status of all sources.
func base(sessionID string, f facts) Session {
	if f.document != nil {
		v := Session{
			Status: f.document.Status, RunID: f.document.RunID, stored: true, Revision: f.document.Revision,
			Course: f.document.Course,
		}
		v.LeftOut = v.Course.LeftOut()
		return v
	}
	info := f.info()
	summary := Memo[workflows.MemoSummary](info, workflows.MemoStatus)
	published := session.State(Attribute[string](info, workflows.AttributeStatus.GetName()))
	return Session{Status: session.Status{
		Session: sessionID, Team: Memo[string](info, workflows.MemoTeam), Run: 1,
		Status:     cmp.Or(published, summary.Status, session.Admitted),
		Checkpoint: summary.Checkpoint, Usage: summary.Usage, Reason: summary.Reason,
	}}
}

// addCosts adds a session's costs and budget.
func addCosts(v *Session, a *state.Account) {
	if a != nil {
		b := a.Budget(budget.SessionScope)
		v.Limit, v.Spent = b.Cap, b.Held()
		v.Status = a.AddTo(v.Status)
	}
}

// warnings are the highest of each budget, by the budgets' names.
func warnings(a *state.Account) (all []budget.Warning) {
	if a == nil {
		return nil
	}
	for _, b := range a.Budgets {
		if n := len(b.Warnings); n > 0 {
			all = append(all, slices.MaxFunc(b.Warnings, func(x, y budget.Warning) int { return cmp.Compare(x.At, y.At) }))
		}
	}
	slices.SortFunc(all, func(x, y budget.Warning) int { return cmp.Compare(x.Scope, y.Scope) })
	return all
}

// overlay adds Temporal's data of a running session's activities.
func overlay(v *Session, f facts) {
	v.ClosedAt = nil
	switch {
	case f.behind():
		v.Status.Status, v.Reason, v.Help = session.Admitted, "", nil
	case v.Status.Status.Closed():
		v.Status.Status = session.Running // the document has the end a moment before Temporal, or the session was reset
	}
	for _, p := range f.description.GetPendingActivities() {
		id := assignmentOf(p.GetActivityId())
		a := v.Assignment(id)
		if a == nil || a.Status.Done() {
			continue
		}
		switch activities.Name(p.GetActivityType().GetName()) {
		case activities.AwaitBreakerName:
			overlayWait(v, id, a, p)
		case activities.RoundName:
			overlayRound(a, p)
		default:
		}
	}
	if len(f.idle) > 0 && f.stalled == "" {
		f.stalled = idleReason(f)
	}
	if f.stalled != "" {
		v.Reason = f.stalled
		v.Notes = append(v.Notes, v.Reason)
	}
}

// overlayRound shows an assignment whose round is at work or waits.
func overlayRound(a *session.AssignmentStatus, p *workflowpb.PendingActivityInfo) {
	h, beaten := heartbeat(p)
	switch p.GetState() {
	case enumspb.PENDING_ACTIVITY_STATE_STARTED:
		a.Status = session.Running
		if beaten {
			a.Progress = h.Progress
		}
		if h.Waits {
			a.Status = session.Waiting
		}
	case enumspb.PENDING_ACTIVITY_STATE_SCHEDULED:
		a.Status, a.Progress = session.Waiting, cmp.Or(a.Progress, delay(p))
	default: // cancelled or paused: as the base has it
	}
}

// overlayWait shows an assignment that waits for its agent's breaker.
func overlayWait(v *Session, id spec.AssignmentID, a *session.AssignmentStatus, p *workflowpb.PendingActivityInfo) {
	a.Status, a.Progress = session.Waiting, "waits for a breaker"
	note := ""
	if h, beaten := heartbeat(p); beaten {
		note = fmt.Sprintf("%s %s", id, h.Progress)
	}
	if a.Awaits != nil {
		a.Progress, note = "waits for breaker "+a.Awaits.Breaker, fmt.Sprintf("%s %s", id, a.Awaits)
	}
	if note != "" && !strings.Contains(v.Reason, note) {
		v.Notes = append(v.Notes, note)
	}
}

// delay describes what a waiting round waits for.
func delay(p *workflowpb.PendingActivityInfo) string {
	if next := p.GetNextAttemptScheduleTime(); next != nil {
		return "the next attempt starts at " + next.AsTime().Local().Format(time.TimeOnly)
	}
	if p.GetLastFailure().GetTimeoutFailureInfo() != nil {
		return "waits for a free worker; the last one stopped sending heartbeats, and may still be running"
	}
	return "waits for a free worker"
}

// idleReason names the queues without a poller, and what to do.
func idleReason(f facts) string {
	store := Memo[string](f.info(), workflows.MemoStore)
	var agents []string
	for _, queue := range f.idle {
		name, isAgent := strings.CutPrefix(queue, spec.AgentQueue(store, ""))
		if !isAgent {
			return fmt.Sprintf("no worker serves this session's store (%s): queue %s has no poller; start one with `maestro worker` or "+
				"`maestro dev`", store, queue)
		}
		agents = append(agents, name)
	}
	return fmt.Sprintf("no worker has agent %s: queue %s has no poller; start a worker whose file defines it",
		strings.Join(agents, ", "), strings.Join(f.idle, ", "))
}

// end sets the end of a session that is closed in Temporal.
func end(v *Session, f facts) {
	info := f.info()
	closed := info.GetCloseTime().AsTime()
	v.ClosedAt = &closed
	before := v.Status.Status
	v.Status.Status = ClosedState(info.GetStatus())
	if v.Status.Status == session.Completed {
		v.Reason = ""
		return
	}
	if before.Closed() && f.end == nil {
		return // the session itself has written how it ended
	}
	if f.behind() {
		v.Reason, v.Help = "", nil
	}
	if faults, refused := notAdmitted(f.end); refused {
		v.Faults, v.Reason = faults, "not admitted: "+strings.Join(faults, "; ")
	} else if help := helpNeeded(f.end); len(help) > 0 {
		v.Help = help
	}
	if v.Reason == "" {
		v.Reason = endReason(info.GetStatus(), f.end)
	}
	for i := range v.Phases {
		v.Phases[i].Close(v.Help)
	}
}

func endReason(s enumspb.WorkflowExecutionStatus, err error) string {
	var app *temporal.ApplicationError
	switch {
	case s == enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED:
		return "the session was terminated in Temporal; its finished work is in the store"
	case s == enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		return "the session timed out in Temporal"
	case s == enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return "the session was cancelled"
	case errors.As(err, &app):
		return app.Message()
	case err != nil:
		return err.Error()
	}
	return ""
}

// complete replaces null lists of the document with empty ones.
func complete(v Session) Session {
	v.Notes, v.Phases, v.Help = notNil(v.Notes), notNil(v.Phases), notNil(v.Help)
	if v.Decisions == nil {
		v.Decisions = map[string]string{}
	}
	for i := range v.Phases {
		v.Phases[i].Assignments = notNil(v.Phases[i].Assignments)
		for j := range v.Phases[i].Assignments {
			v.Phases[i].Assignments[j].Failures = notNil(v.Phases[i].Assignments[j].Failures)
		}
	}
	return v
}

func notNil[E any](list []E) []E {
	if list == nil {
		return []E{}
	}
	return list
}

// assignmentOf reads the assignment out of a round's activity id.
func assignmentOf(activity string) spec.AssignmentID {
	phase, rest, _ := strings.Cut(activity, ".")
	persona, _, _ := strings.Cut(rest, ".")
	return spec.AssignmentID{Phase: phase, Persona: persona}
}
