package sessionstatus

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// TestWorkThatIsNotDelivered: workers poll, and a session's next step waits all the same.
func TestWorkThatIsNotDelivered(t *testing.T) {
	t.Parallel()
	now := time.Unix(2000, 0)
	scheduled, started := enumspb.PENDING_WORKFLOW_TASK_STATE_SCHEDULED, enumspb.PENDING_WORKFLOW_TASK_STATE_STARTED
	for name, c := range map[string]struct {
		state   enumspb.PendingWorkflowTaskState
		attempt int32
		waits   time.Duration
		silent  error
		want    string
	}{
		"a moment": {scheduled, 1, 5 * time.Second, nil, ""},
		"too long": {
			scheduled, 1, 12 * time.Second, nil,
			"no worker has got the session's next step for 12s, although workers poll queue maestro-abcd",
		},
		"at work":        {started, 1, time.Minute, nil, ""},
		"failed before":  {scheduled, 7, time.Minute, nil, ""},
		"nothing is due": {0, 0, 0, nil, ""},
		"no answer": {
			started, 1, 0, errors.New("silence"),
			"no worker gets the session's work: silence; Temporal delivers no work",
		},
	} {
		d := description(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
		d.WorkflowExecutionInfo.TaskQueue = "maestro-abcd"
		if c.attempt > 0 {
			d.PendingWorkflowTask = &workflowpb.PendingWorkflowTaskInfo{
				State: c.state, Attempt: c.attempt,
				ScheduledTime: timestamppb.New(now.Add(-c.waits)),
			}
		}
		w := &Reader{Now: func() time.Time { return now }}
		f := facts{description: d, document: execution(session.Running)}
		f.stalled = w.undelivered(f, c.silent)
		v := merge("s", f)
		if c.want == "" {
			require.Empty(t, v.Notes, name)
			continue
		}
		require.Contains(t, v.Reason, c.want, name)
		require.Contains(t, v.Notes, v.Reason, name)
	}
}
