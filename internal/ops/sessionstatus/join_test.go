package sessionstatus

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
)

func TestRecordsSayWhereWorkStandsSinceTheBoundary(t *testing.T) {
	t.Parallel()
	failed := session.AttemptReport{Failure: *failures.Failf(failures.TestFailure, "red")}
	begun := func(*session.RoundRecord) {}
	gone := func(r *session.RoundRecord) { r.GaveUp, r.Last = true, true }
	wait := &session.BreakerWait{Breaker: "b", Since: time.Unix(1000, 0)}
	for name, c := range map[string]struct {
		state  session.State
		change func(*session.RoundRecord) // nil: there is no round
		want   session.State
		counts int
		agent  string
	}{
		"not begun": {session.Pending, nil, session.Pending, 0, ""},
		"at work":   {session.Pending, begun, session.Running, 0, "other"},
		"between": {session.Pending, func(r *session.RoundRecord) {
			r.AtWork, r.Attempts = false, []session.AttemptReport{failed}
		}, session.Waiting, 1, "other"},
		"given up": {session.Running, func(r *session.RoundRecord) {
			r.GaveUp, r.Attempts = true, []session.AttemptReport{failed}
		}, session.Waiting, 1, "other"},
		"for good": {session.Running, gone, session.Failed, 0, "other"},
		"done": {session.Running, func(r *session.RoundRecord) {
			r.Result = &session.RoundResult{}
		}, session.Completed, 1, "other"},
		"sent back": {session.Pending, func(r *session.RoundRecord) {
			r.Result, r.Undone = &session.RoundResult{}, session.UndoneSentBack
		}, session.Pending, 1, ""},
		"an earlier run": {session.Pending, func(r *session.RoundRecord) { r.Run = 1 }, session.Pending, 0, ""},
		"help needed":    {session.HelpIsNeeded, gone, session.HelpIsNeeded, 0, ""},
		"skipped":        {session.Skipped, gone, session.Skipped, 0, ""},
		"mends":          {session.Completed, func(r *session.RoundRecord) { r.Integrating = true }, session.Running, 0, "other"},
		"a breaker":      {session.Waiting, func(r *session.RoundRecord) { r.AtWork = false }, session.Waiting, 0, ""},
		"no breaker":     {session.Waiting, begun, session.Running, 0, "other"},
	} {
		a := session.AssignmentStatus{Persona: "dev", AssignmentSummary: session.AssignmentSummary{Status: c.state}}
		if c.state == session.Waiting {
			a.Awaits = wait
		}
		var record session.Record
		if c.change != nil {
			r := session.RoundRecord{Order: session.Order{Run: 2}, Agent: "other"}
			r.AtWork = true
			c.change(&r)
			record.Rounds = append(record.Rounds, r)
		}
		join(&a, record, 2)
		require.Equal(t, c.want, a.Status, name)
		require.Equal(t, c.counts, a.Attempts, name)
		require.Equal(t, c.agent, a.Agent, name)
		require.Equal(t, name == "a breaker", a.Awaits != nil, name)
	}
}

func TestWaitsForTheStoreAreSaid(t *testing.T) {
	t.Parallel()
	running := enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	for _, name := range []activities.Name{activities.AdvanceName, activities.WriteStatusName} {
		waits := &workflowpb.PendingActivityInfo{
			ActivityType: &commonpb.ActivityType{Name: string(name)}, LastFailure: &failurepb.Failure{Message: "no space left"},
		}
		require.Equal(t, "resource_error: waiting for the store: no space left",
			storeWait(facts{description: description(t, running, waits)}))
	}
	v := merge("s", facts{description: description(t, running), unreadable: errors.New("no")})
	require.Equal(t, []string{"the session's state in the store cannot be read: no"}, v.Notes)
}

// TestARunThatWasResetGoesOnFromTheDocumentOfTheOneBefore, and a new one begins.
func TestARunThatWasResetGoesOnFromTheDocumentOfTheOneBefore(t *testing.T) {
	t.Parallel()
	e := execution(session.Running)
	e.RunID, e.FirstRun = "before", "first"
	d := description(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	require.Equal(t, session.Admitted, merge("s", facts{description: d, document: e}).Status.Status)
	d.WorkflowExecutionInfo.FirstRunId = "first"
	require.Equal(t, session.Running, merge("s", facts{description: d, document: execution(session.Running)}).Status.Status)
	require.Equal(t, session.Running, merge("s", facts{description: d, document: e}).Status.Status)
}
