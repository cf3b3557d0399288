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
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/session"
)

func TestALaggingMirrorIsSaid(t *testing.T) {
	t.Parallel()
	now := time.Unix(5000, 0)
	at := func(ago time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(-ago)) }
	round := func(ago time.Duration, attempts int) *workflowpb.PendingActivityInfo {
		h := activities.Heartbeat{Log: session.RoundLog{Attempts: make([]session.AttemptReport, attempts)}}
		return &workflowpb.PendingActivityInfo{
			ActivityId: "build.dev.1", ActivityType: &commonpb.ActivityType{Name: string(activities.RoundName)},
			State: enumspb.PENDING_ACTIVITY_STATE_STARTED, LastStartedTime: at(ago),
			HeartbeatDetails: &commonpb.Payloads{Payloads: []*commonpb.Payload{payload(t, h)}},
		}
	}
	mirror := func(state session.State, attempts int) *session.Execution {
		e := &session.Execution{RunID: "r", UpdatedAt: now.Add(-time.Minute)}
		e.Status.Status = session.Running
		e.Phases = []session.PhaseStatus{{Name: "build", Assignments: []session.AssignmentStatus{{Persona: "dev", Status: state, Attempts: attempts}}}}
		return e
	}
	ahead := mirror(session.Waiting, 1)
	ahead.UpdatedAt = now.Add(-time.Second)
	running := enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	ended := mirror(session.Completed, 1)
	ended.Status.Status = session.Completed
	for name, c := range map[string]struct {
		facts facts
		says  string
	}{
		"up to date":         {facts{description: description(t, running, round(time.Minute, 1)), mirrored: mirror(session.Running, 1)}, ""},
		"a moment ago":       {facts{description: description(t, running, round(time.Second, 0)), mirrored: mirror(session.Pending, 0)}, ""},
		"ahead":              {facts{description: description(t, running, round(time.Minute, 0)), mirrored: ahead}, ""},
		"not started":        {facts{description: description(t, running, round(time.Minute, 0)), mirrored: mirror(session.Pending, 0)}, "build/dev as pending, which is running"},
		"an attempt missing": {facts{description: description(t, running, round(time.Minute, 2)), mirrored: mirror(session.Running, 1)}, "1 attempt of build/dev instead of 2"},
		"integrating":        {facts{description: description(t, running, round(time.Minute, 0)), mirrored: mirror(session.Completed, 1)}, ""},
		"no end":             {facts{description: description(t, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED), mirrored: mirror(session.Running, 1)}, "the session has ended since"},
		"ended":              {facts{description: description(t, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED), mirrored: ended}, ""},
		"unreadable":         {facts{description: description(t, running), unreadable: errors.New("no")}, "cannot be read: no"},
		"elsewhere":          {facts{description: description(t, running)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := lag(c.facts, now)
			if c.says == "" {
				require.Empty(t, said)
			}
			require.Contains(t, said, c.says)
		})
	}
	waits := &workflowpb.PendingActivityInfo{
		ActivityType: &commonpb.ActivityType{Name: string(activities.AdvanceName)}, LastFailure: &failurepb.Failure{Message: "no space left"},
	}
	require.Equal(t, "resource_error: waiting for the store: no space left", storeWait(facts{description: description(t, running, waits)}))
}
