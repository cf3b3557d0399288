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
	round := func(change func(*session.RoundRecord)) []session.RoundRecord {
		r := session.RoundRecord{Order: session.Order{Run: 2}, Agent: "other"}
		r.AtWork = true
		change(&r)
		return []session.RoundRecord{r}
	}
	wait := &session.BreakerWait{Breaker: "b", Since: time.Unix(1000, 0)}
	for name, c := range map[string]struct {
		state  session.State
		awaits *session.BreakerWait
		rounds []session.RoundRecord
		want   session.State
		counts int
		agent  string
	}{
		"not begun": {state: session.Pending, want: session.Pending},
		"at work":   {state: session.Pending, rounds: round(func(*session.RoundRecord) {}), want: session.Running, agent: "other"},
		"between": {state: session.Pending, rounds: round(func(r *session.RoundRecord) {
			r.AtWork, r.Attempts = false,
				[]session.AttemptReport{failed}
		}), want: session.Waiting, counts: 1, agent: "other"},
		"given up": {state: session.Running, rounds: round(func(r *session.RoundRecord) {
			r.GaveUp, r.Attempts = true,
				[]session.AttemptReport{failed}
		}), want: session.Waiting, counts: 1, agent: "other"},
		"for good": {
			state: session.Running, rounds: round(func(r *session.RoundRecord) { r.GaveUp, r.Last = true, true }),
			want: session.Failed, agent: "other",
		},
		"done": {
			state: session.Running, rounds: round(func(r *session.RoundRecord) { r.Result = &session.RoundResult{} }),
			want: session.Completed, counts: 1, agent: "other",
		},
		"sent back": {state: session.Pending, rounds: round(func(r *session.RoundRecord) {
			r.Result,
				r.Undone = &session.RoundResult{}, session.UndoneSentBack
		}), want: session.Pending, counts: 1},
		"an earlier run": {state: session.Pending, rounds: round(func(r *session.RoundRecord) { r.Run = 1 }), want: session.Pending},
		"help needed": {
			state: session.HelpIsNeeded, rounds: round(func(r *session.RoundRecord) { r.GaveUp, r.Last = true, true }),
			want: session.HelpIsNeeded,
		},
		"skipped": {
			state: session.Skipped, rounds: round(func(r *session.RoundRecord) { r.GaveUp, r.Last = true, true }),
			want: session.Skipped,
		},
		"mends": {
			state: session.Completed, rounds: round(func(r *session.RoundRecord) { r.Integrating = true }),
			want: session.Running, agent: "other",
		},
		"a breaker": {
			state: session.Waiting, awaits: wait, rounds: round(func(r *session.RoundRecord) { r.AtWork = false }),
			want: session.Waiting,
		},
		"no breaker": {
			state: session.Waiting, awaits: wait, rounds: round(func(*session.RoundRecord) {}), want: session.Running,
			agent: "other",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := session.AssignmentStatus{Persona: "dev", AssignmentSummary: session.AssignmentSummary{Status: c.state}, Awaits: c.awaits}
			join(&a, session.Record{Rounds: c.rounds}, 2)
			require.Equal(t, c.want, a.Status)
			require.Equal(t, c.counts, a.Attempts)
			require.Equal(t, c.agent, a.Agent)
			require.Equal(t, name == "a breaker", a.Awaits != nil)
		})
	}
}

func TestWaitsForTheStoreAreSaid(t *testing.T) {
	t.Parallel()
	running := enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	for _, name := range []activities.Name{activities.AdvanceName, activities.MarkName} {
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
