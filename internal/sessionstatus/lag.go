package sessionstatus

import (
	"context"
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// lagPatience is how long the mirror may take to follow Temporal before it is said
// to lag. It follows within milliseconds where it can be written.
const lagPatience = 10 * time.Second

// lag describes in what the mirrored state is behind Temporal's; empty if it
// is not.
func lag(f facts, now time.Time) string {
	switch {
	case f.unreadable != nil:
		return fmt.Sprintf("the session's state in the store cannot be read: %s", textfmt.FirstLine(f.unreadable.Error()))
	case f.description == nil, f.mirrored == nil, f.behind():
		return ""
	}
	since := "the session's state in the store is out of date, from " + f.mirrored.UpdatedAt.Local().Format(time.DateTime) + ": "
	const mend = "; it is updated at the next change once the store is writable"
	info := f.description.GetWorkflowExecutionInfo()
	if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		if f.mirrored.Status.Status.Closed() || now.Sub(info.GetCloseTime().AsTime()) < lagPatience {
			return ""
		}
		return since + "the session has ended since"
	}
	if now.Sub(f.mirrored.UpdatedAt) < lagPatience {
		return "" // it was written a moment ago, and may be ahead
	}
	for _, p := range f.description.GetPendingActivities() {
		id := assignmentOf(p.GetActivityId())
		a := f.mirrored.Assignment(id)
		started := p.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED && now.Sub(p.GetLastStartedTime().AsTime()) >= lagPatience
		if p.GetActivityType().GetName() != string(activities.RoundName) || a == nil || a.Status.Done() || !started {
			continue
		}
		if a.Status != session.Running {
			return since + fmt.Sprintf("it has %s as %s, which is running", id, a.Status) + mend
		}
		if h, beaten := heartbeat(p); beaten && a.Attempts < len(h.Log.Attempts) {
			return since + fmt.Sprintf("it has %s of %s instead of %d", textfmt.Count(a.Attempts, "attempt"), id, len(h.Log.Attempts)) + mend
		}
	}
	return ""
}

// storeWait describes that a step between phases waits for the store, or a merge for its
// machine, and why; empty where none does.
func storeWait(f facts) string {
	for _, p := range f.description.GetPendingActivities() {
		switch activities.Name(p.GetActivityType().GetName()) {
		case activities.AdmitName, activities.AdvanceName, activities.CloseName:
			if failure := p.GetLastFailure(); failure != nil {
				return fmt.Sprintf("%s: waiting for the store: %s", failures.ResourceError, textfmt.FirstLine(failure.GetMessage()))
			}
		case activities.SealName:
			if failure := p.GetLastFailure(); failure != nil {
				return fmt.Sprintf("the merge waits: %s", textfmt.FirstLine(failure.GetMessage()))
			}
		default: // rounds report it themselves
		}
	}
	return ""
}

// Lags describes in what the mirrored state is behind Temporal's, and what the
// session waits for at the store: a sentence each. It queries no workers.
func (w *Watcher) Lags(ctx context.Context) ([]string, error) {
	f, err := w.compare(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc([]string{lag(f, w.Now()), storeWait(f)}, func(s string) bool { return s == "" }), nil
}

// compare reads Temporal and the mirror, without querying workers.
func (w *Watcher) compare(ctx context.Context) (facts, error) {
	var f facts
	var err error
	f.description, err = w.description(ctx)
	if err == nil {
		f.mirrored, f.unreadable = w.mirrored(f.description)
	}
	return f, err
}
